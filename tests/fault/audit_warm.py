"""Imported by the server that workers are forked from, and by nobody else: loads and compiles all that a worker runs.

Importing is all that such a server can be told to do; so this module works when it is imported.
"""

from __future__ import annotations

from sessionizer.core import PartitionCore
from streams import wire
from streams.clock_mark import ClockMark, MarkKind
from tests.fault.audit_worker import Orders
from tests.fault.audit_world import BATCHES, CORRECTING, JOIN, SCHEMA, SESSIONS, stream, undisturbed

__all__ = ["Orders"]  # What is imported here is what workers find in memory.

_PAIRS = stream(600, seed=0)
_END = ClockMark(partition=0, after_offset=len(_PAIRS), kind=MarkKind.END)
for _join in (JOIN, CORRECTING):
    for _batch in undisturbed(_PAIRS, [_END], 0, _join).batches:
        wire.decode(wire.encode(_batch))
_core = PartitionCore(SCHEMA, SESSIONS, BATCHES, 0, JOIN)
PartitionCore.restore(SCHEMA, SESSIONS, BATCHES, _core.cut(), JOIN)
