"""What can be wrong with a section, as numbers that compiled code returns and as words.

Owns both. The words follow the section's own: "section values of clicks" + " " + these.
"""

from __future__ import annotations

from typing import Final

NONE: Final = 0
SIZE: Final = 1
WIDTH: Final = 2
FLOATS: Final = 3
INT32: Final = 4
SYMBOL: Final = 5
OPEN_BITS: Final = 6
RUNS: Final = 7
RUN_LENGTHS: Final = 8
DICTIONARY: Final = 9
RANK: Final = 10
COLUMNS: Final = 11
SHARES: Final = 12
SHARED_BYTES: Final = 13
SHARED_LEFT: Final = 14
SHARED_DTYPE: Final = 15
LINE: Final = 16
NAME: Final = 17
UNKNOWN: Final = 18
PLACE: Final = 19
MEMORY: Final = 20

WORDS: Final[dict[int, str]] = {
    SIZE: "has {size} bytes; its {count} values need more or less",
    WIDTH: "cannot have {width} bits or bytes a value",
    FLOATS: "holds {dtype}, which is never stored as {encoding}",
    INT32: "holds values beyond int32",
    SYMBOL: "is damaged: a symbol does not exist",
    OPEN_BITS: "is damaged: the open bits are not as many as the symbols say",
    RUNS: "is damaged: its number of runs does not fit {count} values in {columns} columns and {size} bytes",
    RUN_LENGTHS: "is damaged: the runs are not as long together as the column",
    DICTIONARY: "is damaged: its dictionary does not fit {count} values in {size} bytes",
    RANK: "is damaged: a value's rank is beyond the dictionary",
    SHARES: "says that it shares ids; only values share ids",
    SHARED_BYTES: "shares ids: it can have no bytes of its own, and only int64 values",
    SHARED_LEFT: "shares {count} ids; not so many are left",
    SHARED_DTYPE: "holds {dtype}, not int64",
    PLACE: "does not lie behind the section before it, inside the body",
    MEMORY: "would unpack to more memory than the limit, with those before it",
}
