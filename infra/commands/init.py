"""`recd init`: a commented recd.toml to start from.

Owns: the command's options and output. Never: the file's text (infra/config_file) or its values (infra/presets).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from infra import presets
from infra.config import DEFAULT_FILE
from infra.config_file import commented
from streams.errors import ConfigError

TopicOption = Annotated[
    str | None, typer.Option("--for", metavar="TOPIC", help="The least that this topic needs, instead of MovieLens.")
]
PathArgument = Annotated[Path, typer.Argument(help="Where to write it.")]
PrintOption = Annotated[bool, typer.Option("--print", help="To stdout instead of a file.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace a file that is there.")]


def init(
    path: PathArgument = DEFAULT_FILE, topic: TopicOption = None, show: PrintOption = False, force: ForceOption = False
) -> None:
    """Write a commented recd.toml: every key, what it means, and its default.

    Without --for it is the MovieLens example that `recd demo` runs.

    Examples:

        recd init

        recd init --for my-topic --print
    """
    text = commented(presets.minimal(topic) if topic else presets.movielens())
    if show:
        sys.stdout.write(text)
        return
    if path.exists() and not force:
        raise ConfigError(f"{path} is there already; --force replaces it, --print shows the text only")
    path.write_text(text, encoding="utf-8")
    sys.stderr.write(f"wrote {path}\n")
