"""What a migration changes, in words, and every difference that it refuses. Pure: configurations in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from streams.errors import ConfigError
from streams.events.schema import EventSchema
from trainer.checkpoint.manifest import differences
from trainer.config import ModelConfig, TableConfig

_BY_PART: Final = ("tables", "pooling", "transforms", "candidates")
"""Keys of the model that are compared feature by feature and table by table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One configuration, as far as a migration looks at it."""

    schema: EventSchema
    model: ModelConfig
    weights: Mapping[str, Any]
    """`TrainerConfig.weights_config()`: model, optimizer and seed as plain values."""

    @property
    def features(self) -> tuple[str, ...]:
        """In the order in which their vectors interact: group by group."""
        return tuple(key for group in self.schema.all_groups for key in group.features)

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(label.name for label in self.schema.labels)


def plan(was: Side, now: Side) -> tuple[str, ...]:
    """Every change, one line each. ConfigError that names every difference which no migration can bridge."""
    refused = [*_whole(was, now), *_features(was, now), *_tables(was, now)]
    if not set(was.tasks) & set(now.tasks):
        refused.append("labels: none is kept; what was learned was learned for them")
    if refused:
        raise ConfigError(
            "a migration adds or drops features, tables and tasks and grows tables; it cannot bridge: "
            + "; ".join(refused)
            + ". Restore these values, or begin a new lineage without the checkpoint"
        )
    return tuple(_changes(was, now))


def grown_rows(was: TableConfig, now: TableConfig) -> str | None:
    """Why a kept table cannot have the new number of rows; None where it can."""
    if now.rows < was.rows:
        return f"rows: was {was.rows}, is {now.rows}: rows cannot be taken away"
    if was.mapping != "direct" and now.rows % was.rows:
        return (
            f"rows: was {was.rows}, is {now.rows}: ids fall on rows modulo their number, so name a multiple of "
            f"{was.rows}, such as {-(-now.rows // was.rows) * was.rows}"
        )
    return None


def _whole(was: Side, now: Side) -> Iterator[str]:
    yield from differences(_rest(was.weights), _rest(now.weights))
    if was.schema.dense_names != now.schema.dense_names:
        yield f"dense columns: were {list(was.schema.dense_names)}, are {list(now.schema.dense_names)}"


def _rest(weights: Mapping[str, Any]) -> dict[str, Any]:
    model = {key: value for key, value in weights["model"].items() if key not in _BY_PART}
    return {**weights, "model": model}


def _features(was: Side, now: Side) -> Iterator[str]:
    kept = [key for key in now.features if key in was.features]
    if not kept:
        yield "features: none is kept"
    for key in kept:
        pairs = {
            "table": (was.schema.table_of[key], now.schema.table_of[key]),
            "pooling": (was.model.pooling_of(key), now.model.pooling_of(key)),
            "candidate": (was.model.candidates.get(key), now.model.candidates.get(key)),
            "transforms": (was.model.transforms_of(key).stated(), now.model.transforms_of(key).stated()),
        }
        for name, (before, after) in pairs.items():
            if before != after:
                yield f"{name} of feature {key}: was {before!r}, is {after!r}"


def _tables(was: Side, now: Side) -> Iterator[str]:
    for name in sorted(was.model.tables.keys() & now.model.tables.keys()):
        before, after = was.model.tables[name], now.model.tables[name]
        for key in ("mapping", "init_scale"):
            if getattr(before, key) != getattr(after, key):
                yield f"model.tables.{name}.{key}: was {getattr(before, key)!r}, is {getattr(after, key)!r}"
        if before.mapping == after.mapping and (why := grown_rows(before, after)) is not None:
            yield f"model.tables.{name}.{why}"


def _changes(was: Side, now: Side) -> Iterator[str]:
    for name in now.model.tables:
        rows = now.model.tables[name].rows
        if name not in was.model.tables:
            yield f"table {name}: added, {rows} fresh rows"
        elif (before := was.model.tables[name]).rows != rows:
            how = (
                f"the {before.rows - 1} rows of ids keep theirs, the new ones are fresh"
                if before.mapping == "direct"
                else "each new row begins as a copy of the one that its ids had"
            )
            yield f"table {name}: grows from {before.rows} to {rows} rows; {how}"
    yield from (f"table {name}: dropped" for name in was.model.tables if name not in now.model.tables)
    for key in now.features:
        if key not in was.features:
            yield f"feature {key}: added; it begins without a say in the tasks that are kept, and learns it"
    yield from (f"feature {key}: dropped, its terms with it" for key in was.features if key not in now.features)
    yield from (f"task {name}: added, fresh" for name in now.tasks if name not in was.tasks)
    yield from (f"task {name}: dropped" for name in was.tasks if name not in now.tasks)
    if (kept := [key for key in was.features if key in now.features]) != [k for k in now.features if k in was.features]:
        yield f"features change places: {', '.join(kept)} keep their terms"
