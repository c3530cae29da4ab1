"""Outcomes that lie anywhere, in words of their own, routed: the mini-batches of those that lay right."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from streams import wire
from streams.kafka import client
from streams.kafka.client import KafkaConfig
from streams.kafka.end_record import END_HEADER
from tests.end_to_end.test_outcomes import GUIDE, log, recd
from tests.end_to_end.test_two_topics import REST, in_own_words, own_words, write
from tests.streams.kafka.topic_reader import headers_of, read_topic

pytestmark = [pytest.mark.integration, pytest.mark.timeout(500)]

ELSEWHERE, PARTITIONS = 5, 3


def configuration(kafka: str, name: str, path: Path) -> Path:
    """The guide's own for two topics, under other names."""
    one, two = re.findall(r"```toml\n(.*?)```", GUIDE.read_text(), re.DOTALL)[:2]
    named = two.replace('"views', f'"{name}-views').replace('"clicks"', f'"{name}-clicks"')
    named = named.replace("partitions = 2", f"partitions = {PARTITIONS}")
    labels = one[one.index("[[labels]]") :]
    app = f'[worker]\napp = "{name}-app"\n'
    path.write_text(f'{named}{labels}{REST}[kafka]\nbootstrap = "{kafka}"\n{app}')
    return path


def batches_of(kafka: str, name: str) -> list[list[int]]:
    """Content hash of every mini-batch, by partition."""
    topic = read_topic(KafkaConfig(bootstrap=kafka), f"{name}-views-batches", PARTITIONS)
    return [
        [wire.decode(m.value() or b"").content_hash for m in messages if END_HEADER not in headers_of(m)]
        for messages in topic
    ]


def scatter(kafka: str, topic: str, outcomes: list[dict[str, object]]) -> None:
    """As a producer with another partitioner and no keys writes them."""
    admin = client.admin(KafkaConfig(bootstrap=kafka))
    admin.create_topics([NewTopic(topic, ELSEWHERE, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for i, event in enumerate(outcomes):
        producer.produce(topic, json.dumps(event), partition=random.Random(i).randrange(ELSEWHERE))
    producer.produce(topic, b"no JSON", partition=2)
    early = {"type": "click", "user": "anna", "at": 17, "of": "v1"}
    producer.produce(topic, json.dumps(in_own_words([early])[0]), partition=2)
    assert producer.flush(30) == 0


def test_routed_outcomes_give_the_batches_of_outcomes_that_lay_right(kafka: str, tmp_path: Path) -> None:
    events, truth = log(3_000, seed=21)
    views = write(tmp_path / "views.jsonl", [event for event in events if event["type"] == "view"])
    outcomes = [event for event in events if event["type"] != "view"]
    right = configuration(kafka, "right", tmp_path / "right.toml")
    recd("ingest", write(tmp_path / "outcomes.jsonl", outcomes), "--outcomes", "-c", str(right))
    recd("ingest", views, "--end", "-c", str(right))
    assert recd("sessionizer", "--exit-at-end", "-c", str(right))["account"]["emitted"] == len(truth)

    routed = configuration(kafka, "routed", tmp_path / "routed.toml")
    routed.write_text(routed.read_text() + own_words())
    scatter(kafka, "web-clicks", in_own_words(outcomes))
    recd("ingest", views, "-c", str(routed))
    report = recd("route", "web-clicks", "--outcomes", "--until-end", "--end", "-c", str(routed))
    assert (report["read"], report["written"]) == (len(outcomes) + 2, len(outcomes) + 1)
    assert report["reasons"] == {"broken_json": 1}
    account = recd("sessionizer", "--exit-at-end", "-c", str(routed))["account"]
    assert (account["emitted"], account["late"], account["dead_lettered"]) == (len(truth), 0, 1)
    assert batches_of(kafka, "routed") == batches_of(kafka, "right")

    letters = [m for ms in read_topic(KafkaConfig(bootstrap=kafka), "routed-views-dead-letter", PARTITIONS) for m in ms]
    told = {headers_of(letter)["recd-source"]: headers_of(letter) for letter in letters}
    assert told[b"web-clicks"]["recd-reason"] == b"broken_json"
    late = told[b"routed-clicks"]
    assert (late["recd-reason"], late["recd-origin"], late["recd-origin-partition"]) == (
        b"time_out_of_range", b"web-clicks", b"2",
    )  # fmt: skip
    assert b"is outcomes.time_unit right?" in late["recd-detail"]
    assert int(late["recd-origin-offset"]) == int(told[b"web-clicks"]["recd-source-offset"]) + 1
