"""Impressions, clicks and watch times through real Kafka: every sample has the labels that its law says."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from streams import wire
from streams.events.ids import event_id
from streams.kafka import client
from streams.kafka.client import KafkaConfig
from streams.minibatch import MiniBatch
from streams.stage import Stage

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

GUIDE = Path(__file__).parents[2] / "docs" / "labels.md"
NAMES = """
[topics]
interactions = "outcomes"
minibatches = "outcomes-batches"
partitions = 2
[worker]
app = "outcomes-app"
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
[source]
group = "outcomes-trainer"
"""
WINDOW_MS = 600_000
START_MS = 1_735_689_600_000


def recd(*words: str) -> dict[str, Any]:
    """Run a command; returns the last object it printed."""
    command = [sys.executable, "-m", "infra.cli", *words, "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout.splitlines()[-1]))


def log(views: int, seed: int) -> tuple[list[dict[str, object]], dict[int, list[float]]]:
    """Events in order of time, and the labels of each view by its event id."""
    draw = random.Random(seed)
    events: list[dict[str, object]] = []
    truth: dict[int, list[float]] = {}
    for number in range(views):
        at, user, name = START_MS + 5_000 * number, f"u{draw.randrange(40)}", f"v{number}"
        events.append({"type": "view", "id": name, "user": user, "item": draw.randrange(50), "at": at})
        delays = [draw.randrange(0, 2 * WINDOW_MS) for _ in range(draw.choice([0, 0, 1, 2]))]
        watched = [(draw.randrange(0, 2 * WINDOW_MS), draw.randrange(5, 30)) for _ in range(draw.choice([0, 1, 3]))]
        for i, delay in enumerate(delays):
            events.append({"type": "click", "id": f"c{number}-{i}", "user": user, "of": name, "at": at + delay})
        for i, (delay, seconds) in enumerate(watched):
            watch = {"type": "watch", "id": f"w{number}-{i}", "user": user, "of": name, "at": at + delay}
            events.append(watch | {"seconds": seconds})
        in_time = sum(seconds for delay, seconds in watched if delay < WINDOW_MS)
        truth[event_id([name])] = [float(any(d < WINDOW_MS for d in delays)), float(in_time >= 30)]
    events.sort(key=lambda event: (str(event["at"]), str(event["id"])))
    return events, truth


def batches_of(kafka: str, topic: str) -> list[MiniBatch]:
    """Every mini-batch of the topic."""
    consumer = client.consumer(KafkaConfig(bootstrap=kafka), group="outcomes-test", partition_eof=True)
    found: list[MiniBatch] = []
    try:
        consumer.assign([TopicPartition(topic, p, 0) for p in range(2)])
        ended = 0
        while ended < 2:
            message = consumer.poll(10)
            assert message is not None, "the end of the topic does not come"
            value = message.value()
            if message.error() is not None:
                ended += 1
            elif value is not None and len(value):
                found.append(wire.decode(value))
    finally:
        consumer.close()
    return found


def labels_of(batches: list[MiniBatch]) -> dict[int, list[float]]:
    """Event id to labels, of every sample; corrections raise the labels of the sample that they follow."""
    found: dict[int, list[float]] = {}
    for batch in batches:
        rows = zip(batch.lineage.event_id.tolist(), batch.stages.tolist(), batch.labels.tolist(), strict=True)
        for event, stage, labels in rows:
            if stage != Stage.CORRECTION:
                assert event not in found, "a sample came twice"
                found[event] = labels
                continue
            turned = [k for k, label in enumerate(labels) if label == 1]
            assert all(found[event][k] == 0 for k in turned), "a label turned twice"
            found[event] = [1.0 if k in turned else label for k, label in enumerate(found[event])]
    return found


def test_the_guide_s_configuration_gives_every_impression_the_labels_of_its_outcomes(
    kafka: str, tmp_path: Path
) -> None:
    guide = re.findall(r"```toml\n(.*?)```", GUIDE.read_text(), re.DOTALL)[0]
    config = tmp_path / "recd.toml"
    where = f'[kafka]\nbootstrap = "{kafka}"\n[checkpoint]\ndirectory = "{tmp_path / "model"}"\n'
    config.write_text(guide + NAMES + where)
    events, truth = log(2_000, seed=11)
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    ingested = recd("ingest", str(tmp_path / "log.jsonl"), "--end", "-c", str(config))
    assert (ingested["produced"], ingested["dead_letter"]) == (len(events), 0)
    account = recd("sessionizer", "--exit-at-end", "-c", str(config))["account"]
    outcomes = len(events) - len(truth)
    assert (account["impressions"], account["outcomes"], account["emitted"]) == (len(truth), outcomes, len(truth))
    assert account["joined"] + account["missed"] == outcomes
    assert labels_of(batches_of(kafka, "outcomes-batches")) == truth
    trained = recd("trainer", "--exit-at-end", "-c", str(config))
    assert trained["samples"] == len(truth)


CORRECTING = """
policy = "correct"
[session]
gap_ms = 60_000
"""
"""Behind the guide's last table, which is `join`."""


def test_corrections_arrive_at_the_labels_of_waiting_and_are_trained_apart(kafka: str, tmp_path: Path) -> None:
    guide = re.findall(r"```toml\n(.*?)```", GUIDE.read_text(), re.DOTALL)[0]
    config = tmp_path / "recd.toml"
    where = f'[kafka]\nbootstrap = "{kafka}"\n[checkpoint]\ndirectory = "{tmp_path / "model"}"\n'
    config.write_text(guide + CORRECTING + NAMES.replace("outcomes", "corrections") + where)
    events, truth = log(2_000, seed=12)
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    recd("ingest", str(tmp_path / "log.jsonl"), "--end", "-c", str(config))
    account = recd("sessionizer", "--exit-at-end", "-c", str(config))["account"]
    assert (account["emitted"], account["forgotten"]) == (len(truth), 0)
    batches = batches_of(kafka, "corrections-batches")
    stages = Counter(stage for batch in batches for stage in batch.stages.tolist())
    assert stages[Stage.PROVISIONAL] > 0
    assert stages[Stage.CORRECTION] == account["corrected"] > 100
    assert labels_of(batches) == truth
    identities = [(batch.partition, identity) for batch in batches for identity in batch.identities()]
    assert len(set(identities)) == len(identities)
    trained = recd("trainer", "--exit-at-end", "-c", str(config))
    assert (trained["samples"], trained["lineage_corrected"]) == (len(truth), account["corrected"])
    assert trained["metrics"]["clicked"]["lifetime"]["samples"] == len(truth)
