"""The house's budget, over every file that is there: 400 lines a file, 60 a function, 8 parameters a constructor.

Owns: the limits. Never: a list of files, and no exceptions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("streams", "sessionizer", "trainer", "state", "infra", "tests", "benchmarks", "examples")
MAX_FILE_LINES, MAX_FUNCTION_LINES, MAX_CONSTRUCTOR_PARAMETERS = 400, 60, 8

Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources() -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), path)


def functions(path: Path) -> Iterator[Function]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, Function))


def place(path: Path, function: Function) -> str:
    return f"{path.relative_to(ROOT)}:{function.lineno} {function.name}"


def test_the_tree_is_found() -> None:
    assert Path(__file__) in sources()
    assert ROOT / "streams" / "__init__.py" in sources()


def test_no_file_is_longer_than_its_limit() -> None:
    lengths = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in sources()}
    assert {path: length for path, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_no_function_is_longer_than_its_limit() -> None:
    lengths = {
        place(path, function): (function.end_lineno or 0) - function.lineno + 1
        for path in sources()
        for function in functions(path)
    }
    assert {where: length for where, length in lengths.items() if length > MAX_FUNCTION_LINES} == {}


def test_no_constructor_takes_more_than_its_limit() -> None:
    counts = {
        place(path, function): len(function.args.args) + len(function.args.kwonlyargs) - 1  # self is not one
        for path in sources()
        for function in functions(path)
        if function.name == "__init__"
    }
    assert {where: count for where, count in counts.items() if count > MAX_CONSTRUCTOR_PARAMETERS} == {}


def test_every_module_says_what_it_owns() -> None:
    silent = [path.relative_to(ROOT) for path in sources() if tree(path).body and not ast.get_docstring(tree(path))]
    assert silent == []
