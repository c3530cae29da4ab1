"""Feature ids to table rows: which transforms each feature goes through, and the layout of all tables.

Owns the order: the feature's own transforms, the limit of attention, the declared id of missing rows, and at last the
table's mapping. What each does is `streams.ikjt.transforms`; never sees a tensor, never creates or evicts rows.

Shape suffixes: U distinct rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from streams.events.schema import EventSchema
from streams.ikjt import Direct, Group, Hash, Missing, Modulo, PartialIkjt, Transform, Truncate, transform_group
from trainer.config import ModelConfig, TableConfig


def table_seed(table: str) -> int:
    """64 bits from the table's name: equal ids fall on unrelated rows of different tables."""
    return int.from_bytes(hashlib.blake2b(table.encode(), digest_size=8).digest(), "little")


def mapping_of(table: str, config: TableConfig) -> Hash | Modulo | Direct:
    """How ids become rows of the table, 0 to `rows` - 1."""
    match config.mapping:
        case "hash":
            return Hash(config.rows, table_seed(table))
        case "modulo":
            return Modulo(config.rows)
        case "direct":
            return Direct(config.rows)


@dataclass(frozen=True, slots=True)
class Chain:
    """Everything that happens between the ids of a feature and the rows of its table."""

    cleaning: tuple[Transform, ...]
    """What the configuration names, and the limit of attention; may leave rows empty."""
    declared: tuple[Missing, ...]
    """What an empty row becomes, if anything."""
    mapping: Hash | Modulo | Direct

    @property
    def steps(self) -> tuple[Transform, ...]:
        """All in one."""
        return (*self.cleaning, *self.declared, self.mapping)


def chain_of(feature: str, schema: EventSchema, model: ModelConfig) -> Chain:
    """The chain of one feature of the schema."""
    transforms = model.transforms_of(feature)
    limit = (Truncate(model.attention.max_length),) if model.is_sequence(feature) else ()
    table = schema.table_of[feature]
    return Chain((*transforms.chain(), *limit), transforms.declared(), mapping_of(table, model.tables[table]))


@dataclass(frozen=True, slots=True, eq=False)
class TableRows:
    """A group whose ids have become rows of their tables."""

    group: Group
    missing: Mapping[str, int]
    """Feature to samples whose row was empty and became the declared one; only features that declare one."""


def to_table_rows(group: Group, chains: Mapping[str, Chain]) -> TableRows:
    """Run the chain of every feature, once per distinct row; windows stay windows where the chains let them."""
    cleaned = transform_group(group, {key: chain.cleaning for key, chain in chains.items()})
    missing = {key: _num_empty(cleaned, key) for key, chain in chains.items() if chain.declared}
    mapped = transform_group(cleaned, {key: (*chain.declared, chain.mapping) for key, chain in chains.items()})
    return TableRows(mapped, missing)


def _num_empty(group: Group, key: str) -> int:
    """Samples whose row of the feature is empty."""
    length_U = group.length if isinstance(group, PartialIkjt) else group.features[key].lengths
    return int((length_U == 0)[group.inverse].sum())


def first_rows(tables: Mapping[str, TableConfig]) -> dict[str, int]:
    """Table name to its first row in the arena that holds all tables one after the other."""
    starts = np.cumsum([0] + [config.rows for config in tables.values()])
    return {table: int(start) for table, start in zip(tables, starts, strict=False)}
