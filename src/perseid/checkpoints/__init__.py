"""Checkpoint schemes: when and how the state of an application is saved. Give one to ``App.run`` as ``checkpoint=``.

    app.run(spark, root="root/", checkpoint=perseid.checkpoints.adaptive(every(seconds=30)))

adaptive    one checkpoint in every period, when the state is small; the default
parallel    one checkpoint at the end of every period, of all units at once
source      one checkpoint at the end of every period, unit after unit; each unit stops meanwhile

``perseid.checkpoints.comparison`` has the schemes that exist only to be measured against.
"""

from perseid.checkpoint.schemes import Scheme, adaptive, parallel, source
from perseid.checkpoints import comparison

__all__ = ["Scheme", "adaptive", "comparison", "parallel", "source"]
