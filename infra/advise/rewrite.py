"""The [[groups]] of a configuration file, replaced; every other line stays as it is.

Owns the text. Comments and order are kept, so lines are edited, not the parsed file; the result is parsed and compared
with what was meant before anything is written. Never touches the file.
"""

from __future__ import annotations

import difflib
import re
import textwrap
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from infra.config_file import toml_value
from streams.advisor.advice import Form
from streams.errors import ConfigError

_HEADER: Final = re.compile(r"\s*\[")
_GROUPS: Final = re.compile(r"\s*\[\[\s*groups\s*\]\]")
_PLACEHOLDER: Final = re.compile(r"\s*#\s*\[\[\s*groups\s*\]\]")
_SILENT: Final = re.compile(r"\s*(#.*)?$")
_WIDTH: Final = 108


@dataclass(frozen=True, slots=True)
class GroupText:
    """One group as the file shall hold it."""

    name: str
    features: tuple[str, ...]
    form: Form
    comment: str
    dense: tuple[str, ...] = ()


def names_groups(text: str) -> bool:
    """Whether a configuration file has groups already."""
    return bool(tomllib.loads(text).get("groups"))


def with_groups(text: str, groups: Sequence[GroupText]) -> str:
    """The same file with these groups and no others. ConfigError where that cannot be done line by line."""
    newline = "\r\n" if "\r\n" in text else "\n"
    kept, replaced = _without_groups(text.splitlines())
    place = _after_placeholder(kept) if replaced is None else replaced
    block = [line for group in groups for line in ("", *_lines(group))]
    before, after = kept[:place], kept[place:]
    if replaced is not None or not before or not before[-1].strip():
        block = block[1:]
    if block and after and after[0].strip():
        block.append("")
    changed = newline.join([*before, *block, *after]).rstrip() + newline
    _check(text, changed, groups)
    return changed


def diff(before: str, after: str, name: str) -> str:
    """What changes, as a unified diff."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), name, f"{name} (advised)", lineterm="")
    return "\n".join(lines)


def _without_groups(lines: Sequence[str]) -> tuple[list[str], int | None]:
    """The lines that are not of a group, and where the first group stood."""
    kept: list[str] = []
    place: int | None = None
    at = 0
    while at < len(lines):
        if not _GROUPS.match(lines[at]):
            kept.append(lines[at])
            at += 1
            continue
        end = at + 1
        while end < len(lines) and not _HEADER.match(lines[end]):
            end += 1
        # Comments and blank lines at the end are about what follows.
        while _SILENT.match(lines[end - 1]):
            end -= 1
        if place is None:
            place = len(kept)
        while len(kept) > place and not kept[-1].strip():
            kept.pop()
        at = end
    return kept, place


def _after_placeholder(lines: Sequence[str]) -> int:
    """Behind the commented-out groups of `recd init`; else the end of the file, where a [[table]] may always stand."""
    found = [at for at, line in enumerate(lines) if _PLACEHOLDER.match(line)]
    if not found:
        return len(lines)
    return next((at for at in range(found[0], len(lines)) if not lines[at].lstrip().startswith("#")), len(lines))


def _lines(group: GroupText) -> list[str]:
    comment = [f"# {line}" for line in textwrap.wrap(f"recd advise: {group.comment}", _WIDTH)]
    return ["[[groups]]", *comment, *(f"{key} = {toml_value(value)}" for key, value in _values(group).items())]


def _values(group: GroupText) -> dict[str, object]:
    values: dict[str, object] = {"name": group.name, "features": list(group.features)}
    if group.dense:
        values["dense"] = list(group.dense)
    return values if group.form == "exact" else values | {"form": group.form}


def _check(before: str, after: str, groups: Sequence[GroupText]) -> None:
    wanted = {name: value for name, value in tomllib.loads(before).items() if name != "groups"}
    if groups:
        wanted["groups"] = [_values(group) for group in groups]
    try:
        found = tomllib.loads(after)
    except tomllib.TOMLDecodeError:
        found = {}
    if found != wanted:
        by_hand = "\n".join(line for group in groups for line in _lines(group))
        raise ConfigError(f"the groups of this file cannot be replaced line by line; put in by hand:\n{by_hand}")
