"""What import-linter cannot see of the cores' purity: chance that comes as an attribute of numpy.

Owns: that rule, over the packages and shells that pyproject.toml names for the contract `pure`.
Never: the imports themselves; `make check` has them.
"""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def cores() -> list[Path]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    pure = next(contract for contract in contracts if contract["type"] == "pure")
    shells = {path for shell in pure["shells"] for path in files(shell)}
    return sorted({path for package in pure["packages"] for path in files(package)} - shells)


def files(module: str) -> list[Path]:
    path = ROOT.joinpath(*module.split("."))
    return sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def draws(path: Path) -> list[str]:
    """Every `np.random`, whatever follows: a core that needs chance is given a Generator, under another type name."""
    found = (node for node in ast.walk(ast.parse(path.read_text(), path)) if isinstance(node, ast.Attribute))
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for node in found
        if ast.unparse(node) in {"np.random", "numpy.random"}
    ]


def test_the_cores_are_found() -> None:
    names = {str(path.relative_to(ROOT)) for path in cores()}
    assert "streams/minibatch.py" in names
    assert "streams/ikjt/ikjt.py" in names
    assert "sessionizer/faust_seam.py" not in names


def test_no_core_draws_random_numbers() -> None:
    assert [place for path in cores() for place in draws(path)] == []
