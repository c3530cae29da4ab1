"""Fetched records as aiokafka's compiled parser leaves them: what most of the cost of fetching was is not done.

Owns the one detour in aiokafka (pinned exactly): for every record that its parser has made it would make another one,
with eleven fields, four times as dear as parsing. Here topic and partition are said once for all of them. Never
decodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

from aiokafka.consumer.fetcher import PartitionRecords

from streams.events.record import Located, Message, Record


class MessagesOnly(PartitionRecords):  # type: ignore[misc]  # aiokafka has no types here
    """Aiokafka's iterator over a fetched partition, yielding what its parser makes."""

    def _consumer_record(self, tp: Any, record: Message) -> Message:  # noqa: ANN401, ARG002  (aiokafka's signature)
        return record


class Fetched:
    """Messages of one partition: `Records` that are made whole only when one is asked for by its place."""

    def __init__(self, topic: str, partition: int, messages: Sequence[Message]) -> None:
        self._topic = topic
        self._partition = partition
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> Fetched: ...

    def __getitem__(self, place: int | slice) -> Record | Fetched:
        if isinstance(place, slice):
            return Fetched(self._topic, self._partition, self._messages[place])
        one = self._messages[place]
        return Located(self._topic, self._partition, one.offset, one.timestamp, one.key, one.value, one.headers)
