"""Logs: events with fields, on stderr.

Owns: how structlog and the standard library's logging look: a coloured line on a terminal, one JSON object a line
elsewhere. Standard output belongs to results.
Never: logs by itself; cores do not log at all.
"""

from __future__ import annotations

import logging
import sys
from typing import Final, Literal, TextIO

import structlog
import structlog.tracebacks

# Without the values of local variables: they may hold secrets, and a line must stay a line.
_EXCEPTIONS: Final = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False, max_frames=12)
)
PACKAGES: Final = ("streams", "sessionizer", "trainer", "state", "infra")
Level = Literal["debug", "info", "warning", "error"]


class Repeats(logging.Filter):
    """Lets a message of a library through once in `every_s`, and says then how often it was held back.

    Clients of a broker that is away say so forty times a second, and bury what recd itself says.
    """

    def __init__(self, every_s: float = 10.0) -> None:
        super().__init__()
        self._every_s = every_s
        self._said: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not isinstance(record.msg, str) or record.name.partition(".")[0] in PACKAGES:
            return True
        # Before its arguments, which differ; librdkafka has put them in: up to its first number it is the same.
        kind = record.name, record.msg.partition(":")[0]
        since, held = self._said.get(kind, (-self._every_s, 0))
        if record.created - since < self._every_s:
            self._said[kind] = since, held + 1
            return False
        self._said[kind] = record.created, 0
        if held:
            record.msg = f"{record.getMessage()} ({held} more like it)"
            record.args = ()
        return True


def configure(level: Level = "info", stream: TextIO | None = None) -> None:
    """Set logging up for this process; later calls replace earlier ones."""
    stream = stream or sys.stderr
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    render: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer(colors=True)]
        if stream.isatty()
        else [_EXCEPTIONS, structlog.processors.JSONRenderer()]
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    handler.addFilter(Repeats())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Ours at the level asked for; of libraries, which announce their insides, only what is wrong.
    root.setLevel(logging.DEBUG if level == "debug" else logging.WARNING)
    for package in PACKAGES:
        logging.getLogger(package).setLevel(level.upper())
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,  # So that a test, or a later call, can set it up again.
    )


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """The logger of one module."""
    bound: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return bound
