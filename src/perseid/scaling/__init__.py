"""Scaling: when operators get more or fewer shards. Give a policy to ``App.run`` as ``scaling=``.

    app.run(spark, root="root/", scaling=perseid.scaling.auto(most=8))

Without a policy an operator is scaled only when you ask for it (``App.scale``, ``Running.scale``, ``perseid scale``).
The modules of this package decide how many shards an operator has and which keys each answers for (S3, S5).
"""

from perseid.scaling.bottleneck import AutoScaling, auto

__all__ = ["AutoScaling", "auto"]
