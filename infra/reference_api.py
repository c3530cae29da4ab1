"""The reference page of `streams.ikjt`: every public name with its signature, fields, shapes and docstring.

Owns: reading them out of the source files, so that no module is imported for it, torch least of all. What is public
is what the package exports; of a module in the package's map from which it exports nothing, since it needs more than
numpy and is imported late, everything without an underscore. Their order is that of the map. Never: a description of
its own.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

PACKAGE: Final = "streams.ikjt"
INTERNAL: Final = ("invariants", "kernels")
"""Modules in the map that are for the package itself."""

_INTRODUCTION: Final = f"""# {PACKAGE}

What it is, with an example: [IKJT](../ikjt.md). `[B, K]` is a shape, and a letter means the same everywhere: B samples,
U distinct rows, R rows of any kind, V values, P buffers, K dense columns, G groups, M tuples. Arrays are numpy's:
`F32`, `I32` and `I64` stand for `npt.NDArray` of float32, int32 and int64.
"""
_ROOT: Final = Path(__file__).parents[1]
_WIDE: Final = 100
_Function = ast.FunctionDef
_Definition = ast.FunctionDef | ast.ClassDef | ast.Assign


def ikjt() -> str:
    """The page."""
    folder = _ROOT / Path(*PACKAGE.split("."))
    package = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    exported = _exported(package)
    told = ast.get_docstring(package) or ""
    listed = set(re.findall(r"^(\w+)  +\S", told, re.MULTILINE)) | set(exported)
    place = {name: match.start() for name in listed if (match := re.search(rf"(^|`){name}(`|  )", told, re.MULTILINE))}
    parts = [_INTRODUCTION]
    for module in sorted(listed.difference(INTERNAL), key=lambda name: place[name]):
        tree = ast.parse((folder / f"{module}.py").read_text(encoding="utf-8"))
        names = exported.get(module)
        found = {
            name: each for name, each in _definitions(tree).items() if (each[1] if names is None else name in names)
        }
        source = f"{PACKAGE}.{module}" if names is None else PACKAGE
        title, more = _told(tree)
        parts.append(f"## {title}\n\n`from {source} import {', '.join(found)}`\n{more}")
        parts += [_described(name, *nodes) for name, nodes in found.items()]
    return "\n".join(parts)


def _exported(package: ast.Module) -> dict[str, set[str]]:
    """Module to the names that the package takes from it."""
    taken: dict[str, set[str]] = {}
    for node in package.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}."):
            module = str(node.module).removeprefix(f"{PACKAGE}.")
            taken.setdefault(module, set()).update(alias.asname or alias.name for alias in node.names)
    return taken


def _told(module: ast.Module) -> tuple[str, str]:
    """The first sentence of a module, and the rest of what it says of itself, as a paragraph of its own."""
    title, _, more = (ast.get_docstring(module) or "").partition("\n\n")
    return " ".join(title.split()).rstrip("."), f"\n{more}\n" if more else ""


def _definitions(module: ast.Module) -> dict[str, tuple[list[_Definition], str]]:
    """Public classes, functions and documented names of a module with their docstrings, in the order of the file.

    A function that is overloaded is its overloads, with the docstring of what implements them.
    """
    found: dict[str, tuple[list[_Definition], str]] = {}
    for node, after in zip(module.body, [*module.body[1:], None], strict=True):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = ([node], _text(after))
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            overloads, _ = found.get(node.name, ([], ""))
            overloaded = overloads and not _marked(node, "overload")
            found[node.name] = (overloads if overloaded else [*overloads, node], ast.get_docstring(node) or "")
    return {name: each for name, each in found.items() if not name.startswith("_")}


def _marked(node: ast.FunctionDef | ast.ClassDef, *marks: str) -> bool:
    """Whether it carries one of these decorators."""
    return any(isinstance(mark, ast.Name) and mark.id in marks for mark in node.decorator_list)


def _text(node: ast.stmt | None) -> str:
    """The docstring that a statement is, if it is one."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return inspect.cleandoc(node.value.value)
    return ""


def _described(name: str, nodes: Sequence[_Definition], doc: str) -> str:
    """One entry: code, docstring, and of a class its fields and methods."""
    node = nodes[0]
    if not isinstance(node, ast.ClassDef):
        code = "\n".join(_signature(each) if isinstance(each, _Function) else ast.unparse(each) for each in nodes)
        return f"### {name}\n\n```python\n{code}\n```\n" + (f"\n{doc}\n" if doc else "")
    fields = list(_fields(node))
    head = f"class {name}({', '.join(_taken(node))})"
    table = "\n".join(f"| `{field}` | `{kind}` | {meaning} |" for field, kind, meaning in fields)
    parts = [f"### {name}\n\n```python\n{head}\n```\n\n{doc}\n"]
    if fields:
        parts.append(f"| field | type | shape and meaning |\n|---|---|---|\n{table}\n")
    parts += [_method(name, each) for each in node.body if isinstance(each, _Function) and each.name[0] != "_"]
    return "\n".join(parts)


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    """Name, type and docstring of a dataclass's fields."""
    for each, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.target.id[0] != "_":
            kind = ast.unparse(each.annotation).replace("|", "\\|")
            yield each.target.id, kind, " ".join(_text(after).split()).replace("|", "\\|")


def _taken(node: ast.ClassDef) -> Iterator[str]:
    """What the constructor of a dataclass takes, with defaults."""
    for each in node.body:
        if not isinstance(each, ast.AnnAssign) or not isinstance(each.target, ast.Name) or each.target.id[0] == "_":
            continue
        default = _default(each.value)
        if default is not None:
            yield f"{each.target.id}={default}" if default else each.target.id


def _default(value: ast.expr | None) -> str | None:
    """Of a field, as it is written; empty where there is none, and None where the constructor does not take it."""
    if value is None:
        return ""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name) or value.func.id != "field":
        return ast.unparse(value)
    said = {keyword.arg: keyword.value for keyword in value.keywords}
    if "init" in said:
        return None
    factory = said.get("default_factory")
    if isinstance(factory, ast.Lambda):
        return ast.unparse(factory.body)
    return f"{ast.unparse(factory)}()" if factory else ast.unparse(said["default"]) if "default" in said else ""


def _method(owner: str, node: _Function) -> str:
    """One entry of a list: a property without brackets, anything else with its signature."""
    result = "None" if node.returns is None else ast.unparse(node.returns)
    doc = ast.get_docstring(node) or ""
    static = _marked(node, "staticmethod")
    arguments = ", ".join(list(_each_argument(node.args))[0 if static else 1 :])
    call = "" if _marked(node, "property") else f"({arguments})"
    prefix = owner if static or _marked(node, "classmethod") else ""
    return f"- `{prefix}.{node.name}{call} -> {result}`" + (f"\n\n{_indented(doc)}\n" if doc else "\n")


def _signature(node: _Function) -> str:
    """On one line, or an argument a line where that is too wide."""
    result = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    line = f"{node.name}({', '.join(_each_argument(node.args))}){result}"
    if len(line) <= _WIDE:
        return line
    arguments = ",\n".join(f"    {each}" for each in _each_argument(node.args))
    return f"{node.name}(\n{arguments},\n){result}"


def _each_argument(arguments: ast.arguments) -> Iterator[str]:
    """Every argument with its type and default; a lone star where the keyword-only ones begin."""
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for argument, default in zip(positional, defaults, strict=True):
        yield _argument(argument, default)
    if arguments.kwonlyargs:
        yield "*" if arguments.vararg is None else f"*{ast.unparse(arguments.vararg)}"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _argument(argument, default)


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(argument) if default is None else f"{ast.unparse(argument)} = {ast.unparse(default)}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.splitlines())
