"""Whatever comes in, through a file or straight into the topic: nothing is lost, and the stream goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, TopicPartition

from infra.clock import Clock
from streams.kafka import client, headers
from streams.kafka.client import KafkaConfig
from streams.kafka.topics import TopicsConfig

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

TOPICS = TopicsConfig(interactions="bad-input", minibatches="bad-input-batches", partitions=2)
NOW_MS = Clock().now_ms()
FAR_MS = NOW_MS + 10 * 86_400_000

CONFIG = f"""
[event]
event_id = ["id"]
user = "user"
item = "item"
time = "ts"
kind = "type"
kinds = {{ rate = "labelled", view = "impression" }}
[[labels]]
name = "liked"
field = "rating"
rule = "ge"
threshold = 4
[[features]]
name = "user"
field = "user"
table = "users"
[[features]]
name = "item"
field = "item"
table = "items"
[model.tables.users]
rows = 1000
[model.tables.items]
rows = 1000
[topics]
interactions = "{TOPICS.interactions}"
minibatches = "{TOPICS.minibatches}"
partitions = {TOPICS.partitions}
[worker]
app = "bad-input-app"
"""


def event(number: int, **changes: object) -> dict[str, object]:
    good = {
        "id": f"e{number}",
        "user": f"u{number % 7}",
        "item": number,
        "ts": NOW_MS - 60_000 + number,
        "type": "rate",
    }
    return good | {"rating": 5} | changes


def recd(*words: str) -> dict[str, Any]:
    """Run a command; returns the last object it printed."""
    ran = subprocess.run(
        [sys.executable, "-m", "infra.cli", *words, "--json"], capture_output=True, text=True, timeout=150, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout.splitlines()[-1]))


def pairs(message: Message) -> list[tuple[str, bytes]]:
    """Headers with a value."""
    found = message.headers() or []
    assert isinstance(found, list), "consumed headers are pairs"
    return [(name, value) for name, value in found if isinstance(value, bytes)]


def dead_letters(kafka: KafkaConfig) -> list[dict[str, bytes]]:
    """Headers of every dead letter."""
    consumer = client.consumer(kafka, group="bad-input-test", partition_eof=True)
    try:
        consumer.assign([TopicPartition(TOPICS.dead_letter, p, 0) for p in range(TOPICS.partitions)])
        found: list[Message] = []
        ended = 0
        while ended < TOPICS.partitions:
            message = consumer.poll(10)
            assert message is not None, "the end of the dead-letter topic does not come"
            if message.error() is None:
                found.append(message)
            else:
                ended += 1
        return [{name: bytes(value) for name, value in pairs(message)} for message in found]
    finally:
        consumer.close()


def test_bad_lines_and_bad_records_become_dead_letters_with_reason_and_position(kafka: str, tmp_path: Path) -> None:
    settings = KafkaConfig(bootstrap=kafka)
    config = tmp_path / "recd.toml"
    config.write_text(CONFIG + f'[kafka]\nbootstrap = "{kafka}"\n')
    good = [event(n) for n in range(500)]
    lines = [json.dumps(each) for each in good]
    lines[100] = '{"id": "broken'
    lines[200] = json.dumps({name: value for name, value in event(200).items() if name != "user"})
    lines[300] = json.dumps(event(300, ts=(NOW_MS - 60_000) // 1000))
    lines[400] = json.dumps(event(400, type="hover"))
    (tmp_path / "log.jsonl").write_text("\n".join(lines) + "\n")
    report = recd("ingest", str(tmp_path / "log.jsonl"), "-c", str(config))
    assert (report["read"], report["produced"], report["dead_letter"]) == (500, 497, 3)

    producer = client.producer(settings, client_id="bad-input", max_message_bytes=TOPICS.max_message_bytes)
    stamp: list[tuple[str, str | bytes | None]] = [(headers.APPENDED_MS, str(NOW_MS).encode())]
    straight = [
        b"\xff\xfe not json",
        b"[1, 2]",
        json.dumps({name: value for name, value in event(601).items() if name != "item"}).encode(),
        json.dumps(event(602, item=[1])).encode(),
        json.dumps(event(603, ts=FAR_MS)).encode(),
        json.dumps(event(604, ts=NOW_MS * 1000)).encode(),
        json.dumps(event(605, type="hover")).encode(),
        json.dumps(event(606, note="x" * 2_000_000)).encode(),
        None,
        json.dumps(event(607)).encode(),
    ]
    for value in straight:
        producer.produce(TOPICS.interactions, value, b"u1", 0, headers=stamp)
    assert producer.flush(30) == 0
    (tmp_path / "nothing.jsonl").write_text("")
    recd("ingest", str(tmp_path / "nothing.jsonl"), "--end", "-c", str(config))

    summary = recd("sessionizer", "--exit-at-end", "-c", str(config))
    account = summary["account"]
    # 496 good lines (497 were produced, one of unknown kind) and the last record.
    assert (account["labelled"], account["tombstones"]) == (497, 1)
    # The record without a value erases user u1, all of whose 71 samples were still held.
    assert (account["emitted"], account["erased"]) == (426, 71)
    assert account["dead_lettered"] == 9
    assert account["events"] == 497 + len(straight)

    letters = dead_letters(settings)
    reasons = Counter(letter[headers.REASON].decode() for letter in letters)
    assert reasons == {
        "broken_json": 2,
        "not_an_object": 1,
        "missing_field": 2,
        "wrong_type": 1,
        "time_out_of_range": 2,
        "future_time": 1,
        "unknown_kind": 2,
        "too_large": 1,
    }
    from_file = {letter[headers.SOURCE_LINE].decode() for letter in letters if headers.SOURCE_LINE in letter}
    assert from_file == {"101", "201", "301"}
    from_topic = [letter for letter in letters if headers.SOURCE_OFFSET in letter]
    assert len(from_topic) == 9
    assert all(letter[headers.SOURCE] == TOPICS.interactions.encode() for letter in from_topic)
