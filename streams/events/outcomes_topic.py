"""Outcomes in a topic of their own: what its messages mean, and what may not be in it.

Owns the schema of such a topic and the refusal of everything that is no outcome: a sample needs a place among the
interactions, and so does a tombstone, because both act where they stand there. Decodes nothing itself.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from streams.errors import Reason
from streams.events.decode import EventDecoder
from streams.events.interpret import no_features
from streams.events.record import Decoded, Records, Rejected
from streams.events.schema import EventKind, EventSchema

_WHY = {
    EventKind.TOMBSTONE: "a record without a value erases a user only among the interactions; send it there",
    EventKind.IMPRESSION: "an impression belongs among the interactions; send it there",
    EventKind.LABELLED: "a labelled event belongs among the interactions; send it there",
}


def outcomes_schema(schema: EventSchema) -> EventSchema:
    """What messages of the topic mean: as the interactions, but for what `schema.outcomes` says.

    Where no field tells kinds apart, every message is an outcome. With `schema.outcomes` it has no features: what an
    interaction calls one may be anything here. Without, fields of features have to be of a possible type.
    """
    named = schema.outcomes
    if named is not None:
        labels = tuple(replace(label, field=named.labels.get(label.name, label.field)) for label in schema.labels)
        return EventSchema(roles=named.over(schema.roles), labels=labels)
    if schema.roles.kind is not None:
        return schema
    return replace(schema, roles=replace(schema.roles, default_kind="outcome"))


class OutcomesDecoder:
    """Decodes the polls of a topic of outcomes; others are rejected."""

    def __init__(self, decoder: EventDecoder, schema: EventSchema) -> None:
        """`decoder`: of `outcomes_schema(schema)`. Events get the columns of `schema`."""
        self._decoder = decoder
        self._schema = schema

    def decode(self, records: Records, *, now_ms: int | None = None) -> Decoded:
        """As `EventDecoder.decode`, with outcomes only."""
        decoded = self._decoder.decode(records, now_ms=now_ms)
        if self._schema.outcomes is not None:
            dense, ids, lists = no_features(self._schema, len(decoded.events))
            decoded = replace(decoded, events=replace(decoded.events, dense=dense, ids=ids, lists=lists))
        events = decoded.events
        wrong = np.flatnonzero(events.kind != EventKind.OUTCOME)
        if not len(wrong):
            return decoded
        rejected = []
        for i in wrong.tolist():
            record, kind = decoded.origin(int(events.offset[i]), int(events.event_id[i])), EventKind(events.kind[i])
            rejected.append(
                Rejected(
                    partition=record.partition,
                    offset=record.offset,
                    reason=Reason.UNKNOWN_KIND,
                    detail=_WHY[kind],
                    record=record,
                )
            )
        outcomes = events.take(np.flatnonzero(events.kind == EventKind.OUTCOME))
        # A message of many events may hold both: those that are left are told apart by their times.
        there = set(zip(outcomes.offset.tolist(), outcomes.event_time_ms.tolist(), strict=True))
        future = zip(decoded.future.tolist(), decoded.future_ms.tolist(), strict=True)
        left = np.fromiter((one in there for one in future), np.bool_, len(decoded.future))
        return replace(
            decoded,
            events=outcomes,
            rejected=sorted([*decoded.rejected, *rejected], key=lambda one: one.offset),
            future=decoded.future[left],
            future_ms=decoded.future_ms[left],
        )
