"""Where rows come from. What a source has given can be read again, byte for byte, until it is trimmed (M1).

files        parquet, JSON, CSV or text files that arrive in a folder      preserved by reference
generator    rows made up by SQL expressions, at a rate                    preserved by reference
table        any batch DataFrame                                           stored once
stream       any spark.readStream DataFrame                                preserved by value
open_loop    a generator or table whose rows do not wait                   what is dropped is written down
"""

from perseid.sources.files import files
from perseid.sources.generator import generator
from perseid.sources.open_loop import open_loop
from perseid.sources.source import Source
from perseid.sources.stream import stream
from perseid.sources.table import table

__all__ = ["Source", "files", "generator", "open_loop", "stream", "table"]
