"""Mini-batches as bytes, version 1. `docs/wire.md` has the layout byte by byte.

layout     the header, and what numbers on the wire mean
table      the section table: what lies where
packing    integer columns made small before compression
paired, ranked, runs, symbols   the encodings that zstd can count
dictionaries   ids that come more than once, as paired and ranked name them
unpacking  one section back to its column, compiled
arena      every column of a message into one memory
sections   the columns of a message, one after the other
labelling  rate of negatives and stages, which may be absent
groups     feature groups as sections, in either form
bound      how large a message can become, without encoding it
codec      a mini-batch to sections and back
dictionary trained zstd dictionaries, for small messages
damage     what can be wrong with a section, in words

A message is a header of 64 bytes and a body compressed with zstd. The body is a table of sections (kind, name,
dtype, encoding, count, position) and their buffers, each at a multiple of 64 bytes. Both parts are under a CRC-32C.
"""

from streams.wire.bound import most_bytes
from streams.wire.codec import decode, encode, kjt_bytes, peek, train_dictionary
from streams.wire.layout import Header

__all__ = ["Header", "decode", "encode", "kjt_bytes", "most_bytes", "peek", "train_dictionary"]
