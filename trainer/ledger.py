"""The ledger: which mini-batches each step trained on, in order. The lines and what follows from them; pure.

A step is a list of mini-batches, written ahead: the line is in the file before the step begins. From the lines
alone follow the next offset and sequence of every partition (`positions`), the order to repeat after a restore
(`after`) and the lineage of the model (`lineage`): every sample of every step up to it. Files are `ledger_file`.

Stored form of a line, version 1: length (u32, little endian), CRC-32C of the payload (u32), payload = JSON object.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from enum import StrEnum
from itertools import pairwise
from typing import Final

import google_crc32c
import msgspec

from streams.errors import InvariantError

_FRAME: Final = struct.Struct("<II")
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""A longer length field is damage, not a line."""


class Kind(StrEnum):
    """What a line says. Values are stored: never rename."""

    TRAINED = "trained"
    """Written ahead: this step trains on `batches`."""
    SKIPPED = "skipped"
    """Afterwards: the step of this number changed nothing; `reason` says why. Repeats the batches it skipped."""
    REWIND = "rewind"
    """Every earlier line with a step above `step` is void: the lineage goes on from there in another order."""
    MIGRATED = "migrated"
    """The tensors of this step were carried over from another lineage; `reason` says from where, and what changed."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One mini-batch of a step."""

    partition: int
    offset: int
    """Of the mini-batch in its topic."""
    sequence: int
    content_hash: int
    samples: int


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the ledger."""

    step: int
    """1, 2, 3…: the model after this step has learned from the lines up to it."""
    epoch: int
    """Lease under which the line was written."""
    kind: Kind
    batches: tuple[Entry, ...] = ()
    watermark_ms: int = -1
    """Smallest watermark of the batches; -1 where there are none."""
    rng: int = 0
    """Seed of the random numbers of this step: all of its RNG state."""
    reason: str = ""
    """Why the step changed nothing."""
    version: int = 1


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """Where a partition goes on. Both are the next ones, never the last."""

    next_offset: int
    next_sequence: int


Positions = dict[int, Position]


class TopicIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint's positions are positions of."""

    name: str
    topic_id: str
    """Kafka's id of the topic: changes when it is deleted and created again. Empty where the broker has none."""
    partitions: int


class LedgerDamageError(InvariantError):
    """A whole frame holds something that is no line, or bytes before the end are damaged."""


def encode(line: Line) -> bytes:
    """One frame."""
    payload = msgspec.json.encode(line)
    return _FRAME.pack(len(payload), google_crc32c.value(payload)) + payload


def decode(data: bytes) -> tuple[list[Line], int]:
    """The lines of a file and the length of its whole frames; what follows them is a torn tail.

    A torn tail is the last frame only. Damage with whole frames after it is no crash of ours: LedgerDamageError.
    """
    lines: list[Line] = []
    at = 0
    while (payload := _payload(data, at)) is not None:
        lines.append(_line(payload, at))
        at += _FRAME.size + len(payload)
    if _has_whole_frame(data, at):
        raise LedgerDamageError(
            f"bytes from {at} on are damaged, but whole lines follow; restore the file from a backup"
        )
    return lines, at


def positions(start: Mapping[int, Position], lines: Iterable[Line]) -> Positions:
    """Where every partition goes on after these lines: a pure function of them."""
    found = dict(start)
    for line in lines:
        if line.kind is not Kind.TRAINED:
            continue
        for entry in line.batches:
            known = found.get(entry.partition)
            if known is not None and (entry.sequence != known.next_sequence or entry.offset < known.next_offset):
                raise InvariantError(
                    f"step {line.step} trains partition {entry.partition} sequence {entry.sequence} at offset "
                    f"{entry.offset}, but {known} was due; the ledger does not belong to this checkpoint"
                )
            found[entry.partition] = Position(next_offset=entry.offset + 1, next_sequence=entry.sequence + 1)
    return found


def lineage(lines: Iterable[Line], upto: int | None = None) -> list[Line]:
    """The trained lines that the model at step `upto` consists of, in order; void and later ones are left out."""
    kept: dict[int, Line] = {}
    for line in lines:
        if line.kind is Kind.REWIND:
            kept = {step: old for step, old in kept.items() if step <= line.step}
        elif line.kind is Kind.TRAINED:
            if line.step in kept:
                raise InvariantError(f"step {line.step} stands in the ledger twice; two trainers wrote to it")
            kept[line.step] = line
    _without_holes(kept)
    return [line for step, line in kept.items() if upto is None or step <= upto]


def skipped(lines: Iterable[Line]) -> set[int]:
    """Steps that changed nothing."""
    found: set[int] = set()
    for line in lines:
        if line.kind is Kind.REWIND:
            found = {step for step in found if step <= line.step}
        elif line.kind is Kind.SKIPPED:
            found.add(line.step)
    return found


def after(lines: Iterable[Line], step: int) -> list[Line]:
    """What a trainer restored at `step` repeats, in order, before it goes on live."""
    rest = [line for line in lineage(lines) if line.step > step]
    if rest and rest[0].step != step + 1:
        raise InvariantError(f"the ledger goes on at step {rest[0].step}, the checkpoint ends at {step}")
    return rest


def step_seed(seed: int, step: int) -> int:
    """Seed of a step's random numbers: splitmix64 of the run's seed and the step, in 63 bits."""
    mixed = (seed * 0x9E3779B97F4A7C15 + step * 0xD1B54A32D192ED03 + 0x9E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return (mixed ^ (mixed >> 31)) >> 1


_MASK: Final = (1 << 64) - 1


def _payload(data: bytes, at: int) -> bytes | None:
    """Payload of the frame at `at`, or None where no whole, undamaged frame stands."""
    if at + _FRAME.size > len(data):
        return None
    length, crc = _FRAME.unpack_from(data, at)
    start = at + _FRAME.size
    if not 0 < length <= MAX_LINE_BYTES or start + length > len(data):
        return None
    payload = data[start : start + length]
    return payload if google_crc32c.value(payload) == crc else None


def _has_whole_frame(data: bytes, at: int) -> bool:
    """Whether the frame at `at` is damaged but complete and another one follows it."""
    if at + _FRAME.size > len(data):
        return False
    length = _FRAME.unpack_from(data, at)[0]
    return 0 < length <= MAX_LINE_BYTES and _payload(data, at + _FRAME.size + length) is not None


def _line(payload: bytes, at: int) -> Line:
    try:
        line = msgspec.json.decode(payload, type=Line)
    except msgspec.MsgspecError as error:
        raise LedgerDamageError(f"the frame at byte {at} is whole but no ledger line: {error}") from error
    if line.version != 1:
        raise LedgerDamageError(
            f"the line at byte {at} has version {line.version}; this recd reads version 1: update recd"
        )
    return line


def _without_holes(kept: Mapping[int, Line]) -> None:
    steps = list(kept)
    for before, now in pairwise(steps):
        if now != before + 1:
            raise InvariantError(f"step {now} follows step {before} in the ledger; lines are missing")
