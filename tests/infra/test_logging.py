"""Logs: one JSON object a line where no terminal is, for our own packages and for the standard library's loggers."""

from __future__ import annotations

import io
import json
import logging

from infra.logging import configure, logger


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
