"""Options that many commands share, so that they are spelled and explained once.

Owns: `--config`, `--set`, `--json`. Never: reads a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="Configuration file. Default: recd.toml here.")
]
"""A parameter `config: ConfigOption = None` for `infra.config.load(config, overrides)`."""
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override one key, such as session.gap_ms=60000. Repeatable."),
]
"""A parameter `overrides: SetOption = None`; pass `overrides or ()`."""
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object per line on stdout, the summary last.")]
