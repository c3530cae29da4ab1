"""What is generated from the code in docs/: the reference pages and the drawing of an IKJT.

Owns: turning the dataclasses, the metric list and the commands' own help into Markdown; `python -m infra.reference`
writes all of it. The page of `streams.ikjt` is `reference_api`, the drawing `ikjt_drawing`. Never: holds a description
of its own. A test fails while a file differs from what this module says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from typer.testing import CliRunner

from infra import ikjt_drawing, reference_api
from infra.cli import COMMANDS, app
from infra.config_file import commented
from streams.metrics import METRICS

FOLDER: Final = Path(__file__).parents[1] / "docs"
_HELP_WIDTH: Final = {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}


def pages() -> dict[str, str]:
    """File in docs/ to content."""
    return {
        "reference/configuration.md": configuration(),
        "reference/metrics.md": metrics(),
        "reference/commands.md": commands(),
        "reference/ikjt.md": reference_api.ikjt(),
        "ikjt.svg": ikjt_drawing.svg(),
    }


def configuration() -> str:
    """Every key with its meaning and default."""
    intro = (
        "One TOML file holds everything; `recd init` writes it. Values are taken from, highest first: flags\n"
        "(`--set session.gap_ms=60000`), environment (`RECD__SESSION__GAP_MS=60000`), the file, defaults. An unknown\n"
        "key or an impossible value is refused at start, by name."
    )
    return f"# Configuration\n\n{intro}\n\n```toml\n{commented({})}```\n"


def metrics() -> str:
    """Every metric with kind, unit, labels and meaning."""
    head = "| name | kind | unit | labels | meaning |\n|---|---|---|---|---|\n"
    rows = [
        f"| `{name}` | {metric.kind} | {metric.unit} | {', '.join(metric.labels)} | {metric.meaning} |"
        for name, metric in METRICS.items()
    ]
    return "# Metrics\n\n" + head + "\n".join(rows) + "\n"


def commands() -> str:
    """The help of every command, as the terminal shows it."""
    runner = CliRunner(env=_HELP_WIDTH)
    parts = [f"# Commands\n\n```\n{runner.invoke(app, ['--help'], prog_name='recd').output.strip()}\n```\n"]
    for name in COMMANDS:
        text = runner.invoke(app, [name, "--help"], prog_name="recd").output
        parts.append(f"## recd {name}\n\n```\n{text.strip()}\n```\n")
    return "\n".join(parts)


def write(folder: Path = FOLDER) -> None:
    """Bring them up to date."""
    for name, text in pages().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
