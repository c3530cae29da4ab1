"""Mini-batches as bytes, version 1. `docs/wire.md` has the layout byte by byte.

layout     the header and the section table: what lies where
packing    integer columns made small before compression
sections   the columns of a message, one after the other
groups     feature groups as sections, in either form
bound      how large a message can become, without encoding it
codec      a mini-batch to sections and back

A message is a header of 64 bytes and a body compressed with zstd. The body is a table of sections (kind, name,
dtype, encoding, count, position) and their buffers, each at a multiple of 64 bytes. Both parts are under a CRC-32C.
"""

from streams.wire.bound import most_bytes
from streams.wire.codec import decode, encode, kjt_bytes, peek
from streams.wire.layout import Header

__all__ = ["Header", "decode", "encode", "kjt_bytes", "most_bytes", "peek"]
