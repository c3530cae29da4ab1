"""What back-pressure does is read from a real Kafka, by the function and by `recd lag`, while no worker is alive."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from infra import cli
from infra.services.stack import Stack
from sessionizer.pressure import Pressure, read_pressure
from sessionizer.worker_config import WorkerConfig
from streams.clock_mark import WHOLE, ClockMark, MarkKind
from streams.kafka import client
from tests.infra.test_ingest import CONFIG
from tests.sessionizer.shell.test_waits_for_trainer import GROUP, commit
from tests.sessionizer.shell.town import Town, town

MESSAGES = [b"x" * 1_000, b"y" * 200, b"z" * 30]
SHEDS = WorkerConfig(app="pressure-app", max_ahead_bytes=10_000, when_ahead="shed")


def fill(place: Town) -> None:
    """Three messages in a transaction each: between any two lies an offset that nobody can read."""
    for message in MESSAGES:
        producer = client.producer(place.kafka, client_id="pressure", transactional_id="pressure")
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(place.topics.minibatches, message, None, 0)
        assert producer.flush(60) == 0
        producer.commit_transaction(60)


def shed(place: Town, eighths: int, offset: int, *, about: int = 0) -> None:
    mark = ClockMark(partition=about, after_offset=offset, kind=MarkKind.SHED, share=eighths * WHOLE // 8)
    producer = client.producer(place.kafka, client_id="pressure")
    producer.produce(place.topics.clock, mark.encode(), None, 0)
    assert producer.flush(60) == 0


def other_marks(place: Town, number: int) -> None:
    mark = ClockMark(partition=0, after_offset=9, kind=MarkKind.FRESH).encode()
    producer = client.producer(place.kafka, client_id="pressure")
    for _ in range(number):
        producer.produce(place.topics.clock, mark, None, 0)
    assert producer.flush(60) == 0


def read(place: Town, worker: WorkerConfig = SHEDS) -> list[Pressure]:
    return read_pressure(place.kafka, place.topics, worker, GROUP)


def first(place: Town, worker: WorkerConfig = SHEDS) -> Pressure:
    return read(place, worker)[0]


def test_a_broker_that_has_just_started_is_asked_until_it_knows_the_trainer_s_group(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "services", tied=True)
    try:
        with town(stack.up(brokers=1, kind="kafka").kafka, "pressure-new", tmp_path) as place:
            assert first(place) == Pressure(partition=0, ahead_bytes=0, ahead_is_all=True, shed_share=0.0)
    finally:
        stack.down()


def test_what_the_trainer_has_committed_is_not_ahead_of_it(kafka: str, tmp_path: Path) -> None:
    with town(kafka, "pressure-ahead", tmp_path, partitions=2) as place:
        fill(place)
        found = read(place)
        assert [(one.partition, one.ahead_bytes, one.ahead_is_all) for one in found] == [(0, 1_230, True), (1, 0, True)]
        commit(place, 1)
        assert first(place).ahead_bytes == 230
        commit(place, 5)
        assert first(place).ahead_bytes == 0


def test_counting_ends_where_output_waits(kafka: str, tmp_path: Path) -> None:
    with town(kafka, "pressure-bound", tmp_path) as place:
        fill(place)
        shedding = first(place, replace(SHEDS, max_ahead_bytes=550))
        assert (shedding.ahead_bytes, shedding.ahead_is_all) == (1_200, False), (
            "twice the bound, where sessions are shed"
        )
        blocking = first(place, replace(SHEDS, max_ahead_bytes=550, when_ahead="block"))
        assert (blocking.ahead_bytes, blocking.ahead_is_all, blocking.shed_share) == (1_000, False, None)
        assert read(place, WorkerConfig(app="pressure-app")) == []


def test_the_last_share_that_was_decided_is_found_however_far_back(kafka: str, tmp_path: Path) -> None:
    with town(kafka, "pressure-share", tmp_path) as place:
        assert first(place).shed_share == 0, "nothing was ever decided"
        shed(place, 1, 10)
        shed(place, 3, 20)
        assert first(place).shed_share == 0.375
        other_marks(place, 3_500)
        shed(place, 7, 30, about=1)
        producer = client.producer(place.kafka, client_id="pressure")
        producer.produce(place.topics.clock, b"no mark", None, 0)
        assert producer.flush(60) == 0
        assert first(place).shed_share == 0.375
        shed(place, 0, 40)
        assert first(place).shed_share == 0


@pytest.mark.parametrize("as_json", [True, False])
def test_recd_lag_shows_both(kafka: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, as_json: bool) -> None:
    with town(kafka, f"pressure-lag-{as_json}", tmp_path) as place:
        fill(place)
        shed(place, 1, 10)
        read(place)
        config = tmp_path / "recd.toml"
        names = CONFIG.replace("cli-ingest-out", place.topics.minibatches)
        names = names.replace('"cli-ingest"', f'"{place.topics.interactions}"')
        config.write_text(
            f'{names}partitions = 1\n[kafka]\nbootstrap = "{kafka}"\n'
            '[worker]\nmax_ahead_bytes = 550\nwhen_ahead = "shed"\n'
        )
        assert cli.run(["lag", "--config", str(config), *(["--json"] if as_json else [])]) == 0
        out = capsys.readouterr().out.splitlines()
        if as_json:
            sessionizer, trainer, _ = (json.loads(line) for line in out)
            assert sessionizer["shed_share"] == 0.125
            assert (trainer["ahead_bytes"], trainer["ahead_is_all"]) == (1_200, False)
        else:
            head, sessionizer, trainer = out
            assert head.split()[-2:] == ["ahead", "shed"]
            assert sessionizer.split()[-2:] == ["-", "12.5%"]
            assert trainer.split()[-2:] == ["1200+", "-"]
