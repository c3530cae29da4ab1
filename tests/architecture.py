"""The import-linter contract `pure`: a core that reaches no broker, store, clock or chance, new modules included.

Owns: the rule that every module of the named packages, except the named shells, has no chain of imports to any
forbidden module. The built-in contracts name their sources one by one, so a new file would be outside them.
Never: which packages and modules those are; pyproject.toml says so.
"""

from __future__ import annotations

from typing import cast

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class PureContract(Contract):
    """`packages` minus `shells` must not reach `forbidden`, directly or through anything."""

    packages = fields.ListField(subfield=fields.StringField())
    shells = fields.ListField(subfield=fields.StringField(), required=False, default=[])
    forbidden = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001  (the base class's)
        """Every shortest chain from a pure module to a forbidden one."""
        packages, shells = cast("list[str]", self.packages), cast("list[str]", self.shells)
        missing = [package for package in packages if package not in graph.modules]
        pure = sorted(
            module
            for module in graph.modules
            if any(_inside(module, package) for package in packages)
            and not any(_inside(module, shell) for shell in shells)
        )
        forbidden = [module for module in cast("list[str]", self.forbidden) if module in graph.modules]
        found = (graph.find_shortest_chain(importer, imported) for importer in pure for imported in forbidden)
        chains = [" -> ".join(chain) for chain in found if chain]
        problems = [f"no such package: {package}" for package in missing] + chains
        return ContractCheck(kept=not problems, metadata={"problems": problems})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """One line per chain."""
        for problem in check.metadata["problems"]:
            output.print_error(problem)


def _inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")
