"""What ranks say to each other, as msgspec structs. Pure.

Two conversations, each over a channel of its own. Composers: every round each rank tells rank 0 what waits (`Report`),
and rank 0 tells what it decided (`Decision`). Loops: rank 0 commands (`Command`), the others do.
"""

from __future__ import annotations

from typing import Any

import msgspec

from trainer.drain import Reason
from trainer.ledger import Entry, Position, TopicIdentity


class Waiting(msgspec.Struct, frozen=True, array_like=True):
    """A mini-batch in the buffer of the rank that owns its partition."""

    entry: Entry
    watermark_ms: int
    sessions: int
    num_bytes: int
    waited_ms: int
    """How long it has waited by its rank's own clock."""

    @property
    def partition(self) -> int:
        return self.entry.partition

    @property
    def sequence(self) -> int:
        return self.entry.sequence

    @property
    def samples(self) -> int:
        return self.entry.samples


class Queued(msgspec.Struct, frozen=True):
    """What waits in one partition."""

    partition: int
    waiting: tuple[Waiting, ...]
    """The next ones: at least all that one step can take."""
    ended: bool
    """Whether nothing follows them before a new epoch."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """What rank 0 must know of another rank's part of a step; arrays as bytes, in the order of the rank's samples."""

    labels_BT: bytes
    """float32."""
    weights_BT: bytes
    """float32."""
    stage_B1: bytes | None
    """int8; None where all are settled."""
    offset_B1: bytes | None
    """float64; None where nothing was sampled out."""
    stands_for_B1: bytes | None
    """float64; the same."""
    appended_ms: bytes
    """int64, of the samples that are no corrections."""
    corrections: int
    bags: int
    ids: int
    ids_expanded: int
    rows: dict[str, int]
    out_of_range: dict[str, int]
    missing: dict[str, int]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's word in a round."""

    queues: tuple[Queued, ...] = ()
    full: bool = False
    share: Share | None = None
    """Of the step that the last decision closed."""
    duplicates: int = 0
    commit_failures: int = 0
    drain: Reason | None = None
    """The rank was told to stop."""
    error: str = ""
    """What the rank's reader or composer died of."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Rank 0's word in a round."""

    taken: tuple[Entry, ...] = ()
    """Mini-batches that join the step, in its order."""
    closes: bool = False
    """Whether the step is complete: everyone makes tensors of its part."""
    over: bool = False
    """Whether this was the last round."""


class Start(msgspec.Struct, frozen=True, kw_only=True, tag="start"):
    """Where the lineage stands, and under which configuration."""

    topic: TopicIdentity
    positions: dict[int, Position]
    schema_fingerprint: str
    config: dict[str, Any]


class Train(msgspec.Struct, frozen=True, kw_only=True, tag="train"):
    """The next step."""

    seed: int
    weight: float
    """Of all ranks' samples together."""
    bags: int
    """The most that a rank has."""
    samples: int
    """The same."""


class Tables(msgspec.Struct, frozen=True, kw_only=True, tag="tables"):
    """Whole tables to rank 0, or back."""

    what: str


class Dense(msgspec.Struct, frozen=True, tag="dense"):
    """Everything that is not a table is rank 0's."""


class Commit(msgspec.Struct, frozen=True, kw_only=True, tag="commit"):
    """Everything before these offsets is in a checkpoint."""

    next_offsets: dict[int, int]


class Batches(msgspec.Struct, frozen=True, kw_only=True, tag="batches"):
    """The mini-batches of a step of this process to rank 0, as they came."""

    number: int
    """1, 2, 3…: of the steps that were composed; one of the last few."""


class Idle(msgspec.Struct, frozen=True, tag="idle"):
    """Nothing to do; rank 0 is there."""


class Stop(msgspec.Struct, frozen=True, kw_only=True, tag="stop"):
    """The end: orderly with a reason, otherwise with rank 0's error."""

    reason: Reason | None = None
    error: str = ""


Command = Start | Train | Tables | Dense | Commit | Batches | Idle | Stop


def words_of(error: BaseException) -> str:
    """What one rank says of an error to another: the message and its notes."""
    return "\n".join([str(error) or repr(error), *getattr(error, "__notes__", ())])
