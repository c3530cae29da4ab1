"""What a worker reads each of its topics with: roles and format of its own."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa

from sessionizer.config import BatchConfig, JoinConfig, SessionConfig
from sessionizer.wiring import Job
from sessionizer.worker_config import WorkerConfig
from streams.events.formats.config import FormatConfig
from streams.events.ids import event_id, user_id
from streams.events.roles import OutcomeRoles
from streams.inputs import Input
from streams.kafka.client import KafkaConfig
from streams.kafka.topics import TopicsConfig
from streams.metrics import Silent
from tests.sessionizer.shell.test_two_topics import OUTCOMES, SCHEMA, record
from tests.sessionizer.shell.world import START_MS
from tests.streams.events.formats.encode import as_stream


def test_outcomes_in_arrow_under_names_of_their_own_stand_beside_interactions_in_json() -> None:
    own = OutcomeRoles(user="who", event_id=("shown", "ts"), impression="shown", labels={"liked": "thumb"})
    job = Job(
        kafka=KafkaConfig(),
        topics=TopicsConfig(outcomes="outcomes"),
        schema=replace(SCHEMA, outcomes=own),
        session=SessionConfig(),
        join=JoinConfig(),
        batch=BatchConfig(),
        worker=WorkerConfig(),
        reporter=Silent(),
        now_ms=lambda: START_MS,
        log=lambda _event, _fields: None,
        format=FormatConfig(outcomes="arrow"),
    )
    said = [{"who": 3, "shown": number, "ts": START_MS + number, "thumb": number % 2} for number in range(3)]
    outcomes = job._outcomes_decoder().decode([record(OUTCOMES, 4, as_stream(pa.Table.from_pylist(said)))])
    assert not outcomes.rejected
    assert outcomes.events.user.tolist() == [user_id(3)] * 3
    assert outcomes.events.event_id.tolist() == [event_id([number, START_MS + number]) for number in range(3)]
    assert outcomes.events.impression.tolist() == [event_id([number]) for number in range(3)]
    assert outcomes.events.labels.tolist() == [[0], [1], [0]]

    shown = json.dumps({"id": 1, "user": 3, "item": 7, "ts": START_MS}).encode()
    impressions = job._decoder(job.schema, Input.INTERACTIONS).decode([record(Input.INTERACTIONS, 0, shown)])
    assert impressions.events.user.tolist() == [user_id(3)]
    assert impressions.events.ids.shape == (1, 1)
    assert outcomes.events.ids.shape == (3, 1), "events of both topics lie in the same columns"
