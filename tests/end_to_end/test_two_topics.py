"""Views in one topic, outcomes in another, real Kafka and a kill -9: the batches of the same events in one topic.

Also where the outcomes' service has its own words for everything, as in the guide.

Views come in two halves. When the workers have read the first one their watermark stands still, with sessions open
and views that wait for outcomes: whoever dies or hands over then has work in flight, on a slow machine too.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupState, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from infra.clock import Clock, Deadline
from streams import wire
from streams.kafka import client
from streams.kafka.client import KafkaConfig
from streams.minibatch import MiniBatch
from tests.end_to_end.test_outcomes import GUIDE, log, recd

pytestmark = [pytest.mark.integration, pytest.mark.timeout(500)]

REST = """
[[features]]
name = "item"
field = "item"
table = "items"
[[histories]]
name = "clicked_items"
table = "items"
label = "clicked"
[model.tables.items]
rows = 1000
[session]
gap_ms = 60_000
lateness_ms = 5_000
[batch]
samples = 32
"""


def batches_of(kafka: str, topic: str, *, least: int | None = None) -> list[list[MiniBatch]]:
    """Mini-batches of each partition; with `least` as soon as there are so many, without all there are."""
    consumer = client.consumer(KafkaConfig(bootstrap=kafka), group="two-topics-test", partition_eof=least is None)
    found: list[list[MiniBatch]] = [[], []]
    try:
        consumer.assign([TopicPartition(topic, p, 0) for p in range(2)])
        ended = set[int]()
        while (len(ended) < 2) if least is None else sum(map(len, found)) < least:
            message = consumer.poll(120)
            assert message is not None, f"{topic} has {sum(map(len, found))} batches only"
            partition, value = message.partition() or 0, message.value()
            if message.error() is not None:
                ended.add(partition)
            elif value is not None and len(value):
                found[partition].append(wire.decode(value))
    finally:
        consumer.close()
    return found


def configs(kafka: str, directory: Path) -> tuple[Path, Path]:
    """For one topic, and for two: the guide's own, with what it leaves out."""
    one, two = re.findall(r"```toml\n(.*?)```", GUIDE.read_text(), re.DOTALL)[:2]
    labels = one[one.index("[[labels]]") :]
    where = f'{REST}[kafka]\nbootstrap = "{kafka}"\n'
    names = '[topics]\ninteractions = "both"\nminibatches = "both-batches"\npartitions = 2\n'
    # Between two halves time must not go on by the clock.
    still = "cut_every_ms = 300\nidle_ms = 600_000\n"
    apps = ['[worker]\napp = "both-app"\n', f'[worker]\napp = "views-app"\n{still}']
    paths = directory / "one.toml", directory / "two.toml"
    paths[0].write_text(one + names + where + apps[0])
    paths[1].write_text(two + labels + where + apps[1])
    return paths


def in_own_words(outcomes: list[dict[str, object]]) -> list[dict[str, object]]:
    """The same outcomes as the guide's other service writes them."""
    words = {"type": "what", "user": "who", "of": "shown", "at": "when", "seconds": "duration"}
    told = [{words[name]: value for name, value in event.items() if name in words} for event in outcomes]
    return [event | {"when": datetime.fromtimestamp(int(str(event["when"])) / 1000, UTC).isoformat()} for event in told]


def own_words() -> str:
    """The guide's configuration of them."""
    return str(re.findall(r"```toml\n(.*?)```", GUIDE.read_text(), re.DOTALL)[2])


def write(path: Path, events: list[dict[str, object]]) -> str:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return str(path)


@dataclass(frozen=True, slots=True)
class Worker:
    """`recd sessionizer` in the background."""

    process: subprocess.Popen[bytes]
    log: Path

    @staticmethod
    def start(config: Path, log: Path, *words: str) -> Worker:
        command = [sys.executable, "-m", "infra.cli", "sessionizer", *words, "-c", str(config)]
        with log.open("w") as stderr:
            return Worker(subprocess.Popen(command, stderr=stderr), log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def halves(directory: Path, views: list[dict[str, object]]) -> tuple[str, str]:
    middle = len(views) // 2
    return write(directory / "half.jsonl", views[:middle]), write(directory / "rest.jsonl", views[middle:])


def test_two_topics_in_words_of_their_own_give_the_batches_of_one_though_the_worker_is_killed(
    kafka: str, tmp_path: Path
) -> None:
    one, two = configs(kafka, tmp_path)
    two.write_text(two.read_text() + own_words())
    events, truth = log(4_000, seed=12)
    recd("ingest", write(tmp_path / "all.jsonl", events), "--end", "-c", str(one))
    assert recd("sessionizer", "--exit-at-end", "-c", str(one))["account"]["emitted"] == len(truth)
    expected = batches_of(kafka, "both-batches")

    views = [event for event in events if event["type"] == "view"]
    outcomes = in_own_words([event for event in events if event["type"] != "view"])
    recd("ingest", write(tmp_path / "outcomes.jsonl", outcomes), "--outcomes", "-c", str(two))
    first, rest = halves(tmp_path, views)
    recd("ingest", first, "-c", str(two))
    worker = Worker.start(two, tmp_path / "worker.log")
    try:
        before = sum(map(len, batches_of(kafka, "views-batches", least=8)))
        assert worker.process.poll() is None, worker.log.read_text()
    finally:
        worker.kill()
    recd("ingest", rest, "--end", "-c", str(two))
    account = recd("sessionizer", "--exit-at-end", "-c", str(two))["account"]
    found = batches_of(kafka, "views-batches")
    assert before < sum(map(len, found))
    for mine, theirs in zip(found, expected, strict=True):
        assert [batch.sequence for batch in mine] == list(range(len(mine)))
        assert [batch.content_hash for batch in mine] == [batch.content_hash for batch in theirs]
    assert (account["events"], account["emitted"], account["late"]) == (len(events), len(truth), 0)
    assert account["joined"] + account["missed"] == account["outcomes"] == len(outcomes)
    lags = recd("lag", "-c", str(two))
    assert lags["sessionizer"]["fetch_events"] == 0


def members(admin: AdminClient, group: str) -> list[int]:
    """How many partitions each worker has, of both topics together; nothing while they are being given out."""
    try:
        told = admin.describe_consumer_groups([group], request_timeout=60)[group].result()
    except KafkaException:
        return []  # There is no such group yet.
    if told.state is not ConsumerGroupState.STABLE:
        return []
    return [len(one.assignment.topic_partitions) if one.assignment else 0 for one in told.members]


def wait_for_members(kafka: str, group: str, wanted: list[int], workers: list[Worker]) -> None:
    """Until the partitions are given out like this."""
    clock, admin = Clock(), client.admin(KafkaConfig(bootstrap=kafka))
    deadline = Deadline.after(clock, 120_000)
    while (found := members(admin, group)) != wanted:
        for worker in workers:
            assert worker.process.poll() is None, worker.log.read_text()
        assert not deadline.passed, (found, *(worker.log.read_text() for worker in workers))
        clock.sleep(100)


def test_two_workers_on_two_topics_hand_over_and_give_the_batches_of_one_topic(kafka: str, tmp_path: Path) -> None:
    one, two = configs(kafka, tmp_path)
    one.write_text(one.read_text().replace('"both', '"shared-both'))
    two.write_text(two.read_text().replace('"views', '"shared').replace('"clicks"', '"shared-clicks"'))
    events, truth = log(4_000, seed=14)
    recd("ingest", write(tmp_path / "all.jsonl", events), "--end", "-c", str(one))
    assert recd("sessionizer", "--exit-at-end", "-c", str(one))["account"]["emitted"] == len(truth)
    expected = batches_of(kafka, "shared-both-batches")

    views = [event for event in events if event["type"] == "view"]
    outcomes = [event for event in events if event["type"] != "view"]
    recd("ingest", write(tmp_path / "outcomes.jsonl", outcomes), "--outcomes", "-c", str(two))
    half, rest = halves(tmp_path, views)
    recd("ingest", half, "-c", str(two))
    first, second = None, None
    try:
        first = Worker.start(two, tmp_path / "first.log")
        wait_for_members(kafka, "shared-app", [4], [first])
        second = Worker.start(two, tmp_path / "second.log", "--exit-at-end")
        wait_for_members(kafka, "shared-app", [2, 2], [first, second])
        batches_of(kafka, "shared-batches", least=8)
        first.process.terminate()
        assert first.process.wait(60) == 0, first.log.read_text()
        recd("ingest", rest, "--end", "-c", str(two))
        assert second.process.wait(120) == 0, second.log.read_text()
    finally:
        for worker in (first, second):
            if worker is not None:
                worker.kill()
    for mine, theirs in zip(batches_of(kafka, "shared-batches"), expected, strict=True):
        assert [batch.sequence for batch in mine] == list(range(len(mine)))
        assert [batch.content_hash for batch in mine] == [batch.content_hash for batch in theirs]


def test_outcomes_that_another_partitioner_has_placed_are_refused_with_the_remedy(kafka: str, tmp_path: Path) -> None:
    config = tmp_path / "recd.toml"
    text = configs(kafka, tmp_path)[1].read_text()
    config.write_text(text.replace('"views', '"placed').replace('"clicks"', '"placed-clicks"'))
    events, _ = log(200, seed=13)
    recd("ingest", write(tmp_path / "views.jsonl", [e for e in events if e["type"] == "view"]), "-c", str(config))
    producer = Producer({"bootstrap.servers": kafka})
    for event in events:
        if event["type"] != "view":
            producer.produce("placed-clicks", key=str(event["user"]), value=json.dumps(event))
    producer.flush(30)
    command = [sys.executable, "-m", "infra.cli", "sessionizer", "--exit-at-end", "-c", str(config)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode != 0
    assert "placed-clicks are not in the partition that murmur2 gives their key" in ran.stderr
    assert "partitioner=murmur2_random" in ran.stderr
    assert "name a new topic in place of placed-clicks, then run `recd route placed-clicks`" in ran.stderr
