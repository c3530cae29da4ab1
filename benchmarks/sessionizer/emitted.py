"""The mini-batches of a run, against the truth of its stream: work that is wrong is not worth measuring.

Owns the comparison of labels and sessions, which are known from an event's number alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from confluent_kafka import TopicPartition

from benchmarks.sessionizer.setup import Filled
from benchmarks.sessionizer.stream import FIRST_VIEW, clicked, sessions_of
from infra.config import Config
from streams import wire
from streams.errors import RetryableError
from streams.kafka import client
from streams.minibatch import MiniBatch

_WAIT_S = 30.0


def checked(filled: Filled, config: Config) -> int:
    """How many samples were compared: all of them. Raises RuntimeError where one is wrong, missing or there twice."""
    batches = list(_batches(config))
    view = np.concatenate([batch.lineage.event_id for batch in batches]).astype(np.int64) - FIRST_VIEW
    labels = np.concatenate([batch.labels[:, 0] for batch in batches])
    if not np.array_equal(np.sort(view), np.arange(filled.num_views)):
        raise RuntimeError(f"{len(view)} samples of {filled.num_views} impressions, or other ones")
    wrong = np.flatnonzero(labels != clicked(filled.law, view))
    if len(wrong):
        raise RuntimeError(f"{len(wrong)} samples have a wrong label, among them impression {view[wrong[0]]}")
    # A part of a session lies in one batch: there its samples stand together.
    session = sessions_of(filled.law, view)
    batch = np.repeat(np.arange(len(batches)), [len(batch) for batch in batches])
    runs = 1 + int(np.count_nonzero((session[1:] != session[:-1]) | (batch[1:] != batch[:-1])))
    pairs = len(np.unique(np.stack([session, batch]), axis=1).T)
    if runs != pairs:
        raise RuntimeError(f"samples of a session do not stand together: {runs} runs of {pairs} sessions")
    return len(view)


def _batches(config: Config) -> Iterator[MiniBatch]:
    reader = client.consumer(config.kafka, group="bench", partition_eof=True)
    partitions = range(config.topics.partitions)
    try:
        reader.assign([TopicPartition(config.topics.minibatches, partition, 0) for partition in partitions])
        ended = 0
        while ended < len(partitions):
            message = reader.poll(_WAIT_S)
            if message is None:
                raise RetryableError(f"topic {config.topics.minibatches} does not come to its end")
            if message.error() is not None:
                ended += 1
            elif (value := message.value()) is not None and len(value):
                yield wire.decode(value)
    finally:
        reader.close()
