"""Logs: one JSON object a line where no terminal is, for our own packages and for the standard library's loggers."""

from __future__ import annotations

import io
import json
import logging

import pytest

from infra.clock import Clock, Deadline
from infra.logging import Repeats, configure, logger
from streams.kafka.client import KafkaConfig, consumer


def lines_of(text: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.getvalue().splitlines()]


def test_an_event_is_one_json_object_with_its_fields() -> None:
    text = io.StringIO()
    configure("info", text)
    logger("infra.test").info("started", port=7)
    (line,) = lines_of(text)
    assert (line["event"], line["port"], line["level"], line["logger"]) == ("started", 7, "info", "infra.test")


def test_libraries_are_heard_only_when_something_is_wrong() -> None:
    text = io.StringIO()
    configure("info", text)
    logging.getLogger("somebody.else").info("my insides")
    logging.getLogger("somebody.else").warning("broken")
    logging.getLogger("trainer.loop").info("ours")
    assert [line["event"] for line in lines_of(text)] == ["broken", "ours"]


def test_debug_hears_everything() -> None:
    text = io.StringIO()
    configure("debug", text)
    logging.getLogger("somebody.else").debug("detail")
    configure("info", io.StringIO())
    assert [line["event"] for line in lines_of(text)] == ["detail"]


def test_an_exception_is_in_the_line_without_the_values_of_its_variables() -> None:
    text = io.StringIO()
    configure("info", text)
    password = "hunter2"  # noqa: S105
    try:
        int(password)
    except ValueError:
        logger("infra.test").exception("failed")
    assert '"password"' not in text.getvalue()
    assert lines_of(text)[0]["exception"][0]["exc_type"] == "ValueError"  # type: ignore[index]


def test_a_library_that_says_the_same_again_and_again_is_heard_once_and_counted() -> None:
    text = io.StringIO()
    configure("info", text)
    library = logging.getLogger("aiokafka.conn")
    (repeats,) = logging.getLogger().handlers[0].filters
    assert isinstance(repeats, Repeats)
    for port in range(40):
        library.error("Unable to connect to node at %s:%d", "broker", port)
    library.error("something else")
    logger("infra.test").warning("ours")
    logger("infra.test").warning("ours")
    assert [line["event"] for line in lines_of(text)] == [
        "Unable to connect to node at broker:0",
        "something else",
        "ours",
        "ours",
    ]
    later = logging.LogRecord(
        "aiokafka.conn", logging.ERROR, "", 0, "Unable to connect to node at %s:%d", ("b", 7), None
    )
    later.created += 11
    assert repeats.filter(later)
    assert later.getMessage() == "Unable to connect to node at b:7 (39 more like it)"


def test_librdkafka_speaks_through_the_log_and_not_past_it(capfd: pytest.CaptureFixture[str]) -> None:
    text, deadline = io.StringIO(), Deadline.after(Clock(), 10_000)
    configure("info", text)
    client = consumer(KafkaConfig(bootstrap="127.0.0.1:1"), group="nobody")
    client.subscribe(["nothing"])
    while not text.getvalue() and not deadline.passed:
        client.poll(0.1)
    client.close()
    assert {line["logger"] for line in lines_of(text)} == {"librdkafka"}
    assert "rdkafka" not in capfd.readouterr().err
