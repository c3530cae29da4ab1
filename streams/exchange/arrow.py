"""A mini-batch as one line of an Arrow record batch, and back. Many are the lines of one table, or of one IPC stream.

Owns the columns beside the groups, whose layout, and why one batch is one line, is `streams.ikjt.arrow`. Version 1:

    partition: int32   sequence: int64   watermark_ms: int64   fingerprint: uint64
    lineage: struct<offset: large_list<int64>, event_id: large_list<uint64>, session_id: …, …>    [B] each
    labels:  large_list<fixed_size_list<float>[T]>                                                [B]
    dense:   large_list<fixed_size_list<float>[K]>                                                [B]
    negative_rate: double   stage: large_list<uint8>                                              [B]; `Stage`
    groups:  struct<user: struct<…>, item: struct<…>>                                             in their order

`labels`, `dense` and `groups` are absent where T, K or the number of groups is 0. Lines from before `negative_rate`
and `stage` existed lack them: then the rate is 1 and every sample settled. The schema's metadata hold the
version under `recd.minibatch`. Nothing but `windows` of a group is ever null.

Shapes: B samples, T labels, K dense columns.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streams.ikjt.arrow import from_struct, to_struct
from streams.ikjt.arrow_lists import Array, fields_of, list_of, numbers, only_line, struct_of
from streams.minibatch import LINEAGE_DTYPES, Lineage, MiniBatch

VERSION: Final[dict[str | bytes, str | bytes]] = {b"recd.minibatch": b"1"}

IDENTITY: Final = {
    "partition": pa.int32(),
    "sequence": pa.int64(),
    "watermark_ms": pa.int64(),
    "fingerprint": pa.uint64(),
}
_COLUMNS: Final = (*IDENTITY, "lineage", "labels", "dense", "negative_rate", "stage", "groups")
_FLOAT: Final = pa.field("item", pa.float32(), nullable=False)


def to_arrow(batch: MiniBatch) -> pa.RecordBatch:
    """One line. Shares the memory of every column but dense columns of groups. Raises ValueError for a broken batch."""
    batch.validate()
    columns: dict[str, Array] = {name: pa.array([getattr(batch, name)], kind) for name, kind in IDENTITY.items()}
    columns["lineage"] = struct_of({name: only_line(pa.array(getattr(batch.lineage, name))) for name in LINEAGE_DTYPES})
    for name, matrix in (("labels", batch.labels), ("dense", batch.dense)):
        if matrix.shape[1]:
            columns[name] = only_line(_matrix(matrix))
    # Always there, so that batches with and without them are lines of one table.
    columns["negative_rate"] = pa.array([batch.negative_rate], pa.float64())
    columns["stage"] = only_line(pa.array(batch.stages))
    if batch.groups:
        columns["groups"] = struct_of({group.group: to_struct(group) for group in batch.groups})
    fields = [pa.field(name, column.type, nullable=False) for name, column in columns.items()]
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields, VERSION))


def from_arrow(batch: pa.RecordBatch, line: int = 0, *, copy: bool = False) -> MiniBatch:
    """The mini-batch of one line.

    Arrays are read-only views of Arrow's memory, unless `copy` asks for arrays of their own. Trusts nothing: raises
    ValueError that names the column for whatever is not a valid mini-batch.
    """
    columns = line_of(batch, line)
    unknown = [name for name in columns if name not in _COLUMNS]
    if unknown:
        raise ValueError(f"column {unknown[0]} is not part of a mini-batch, which has {', '.join(_COLUMNS)}")
    lineage = _lineage(_needed(columns, "lineage"))
    num_samples = len(lineage["offset"])
    groups = fields_of(columns["groups"], "groups") if "groups" in columns else {}
    read = MiniBatch(
        **{name: integer(_needed(columns, name), name, kind) for name, kind in IDENTITY.items()},
        lineage=Lineage(**{name: column.copy() if copy else column for name, column in lineage.items()}),
        labels=_floats(columns.get("labels"), "labels", num_samples, copy=copy),
        dense=_floats(columns.get("dense"), "dense", num_samples, copy=copy),
        groups=tuple(from_struct(name, column, copy=copy) for name, column in groups.items()),
        negative_rate=_rate(columns.get("negative_rate")),
        stage=_stage(columns.get("stage"), copy=copy),
    )
    read.validate()
    return read


def line_of(batch: pa.RecordBatch, line: int) -> dict[str, Array]:
    """The columns of one line, after a look at the version and at what Arrow itself can check."""
    version = (batch.schema.metadata or {}).get(b"recd.minibatch")
    if version != VERSION[b"recd.minibatch"]:
        raise ValueError(f"the schema's metadata have recd.minibatch = {version!r}; this version of recd reads b'1'")
    if not 0 <= line < batch.num_rows:
        raise ValueError(f"no line {line}: the record batch has {batch.num_rows}")
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        raise ValueError(f"the record batch is damaged: {error}") from error
    names = batch.schema.names
    if len(set(names)) < len(names):
        raise ValueError(f"columns must be unique, not {names}")
    return {name: column.slice(line, 1) for name, column in zip(names, batch.columns, strict=True)}


def integer(column: Array, name: str, kind: pa.DataType) -> int:
    """The number of a column of one line."""
    return int(numbers(column, f"column {name}", kind)[0])


def _needed(columns: dict[str, Array], name: str) -> Array:
    if name not in columns:
        raise ValueError(f"there is no column {name}; there are {', '.join(columns)}")
    return columns[name]


def _lineage(column: Array) -> dict[str, npt.NDArray[Any]]:
    parts = fields_of(column, "lineage")
    if set(parts) != set(LINEAGE_DTYPES):
        raise ValueError(f"lineage needs {', '.join(LINEAGE_DTYPES)}, not {', '.join(parts)}")
    return {
        name: numbers(list_of(parts[name], f"lineage.{name}"), f"lineage.{name}", pa.from_numpy_dtype(dtype))
        for name, dtype in LINEAGE_DTYPES.items()
    }


def _rate(column: Array | None) -> float:
    return 1.0 if column is None else float(numbers(column, "column negative_rate", pa.float64())[0])


def _stage(column: Array | None, *, copy: bool) -> npt.NDArray[np.uint8] | None:
    """[B]; None where the column is absent, or says that every sample is settled."""
    stage = None if column is None else numbers(list_of(column, "stage"), "stage", pa.uint8())
    if stage is None or not stage.any():
        return None
    return stage.copy() if copy else stage


def _matrix(matrix: npt.NDArray[np.float32]) -> Array:
    """[B, columns] as B lists of one size."""
    num_samples, num_columns = matrix.shape
    fixed: Any = pa.FixedSizeListArray
    values = pa.array(np.ascontiguousarray(matrix).reshape(num_samples * num_columns))
    return fixed.from_arrays(values, type=pa.list_(_FLOAT, num_columns))


def _floats(column: Array | None, name: str, num_samples: int, *, copy: bool) -> npt.NDArray[np.float32]:
    """[B, columns]; [B, 0] where the column is absent."""
    if column is None:
        return np.zeros((num_samples, 0), np.float32)
    rows = list_of(column, name)
    if not pa.types.is_fixed_size_list(rows.type):
        raise ValueError(f"{name}: needs lists of one size, not {rows.type}")
    if rows.null_count:
        raise ValueError(f"{name}: {rows.null_count} samples are null; nothing here may be absent")
    matrix = numbers(rows.flatten(), name, pa.float32()).reshape(len(rows), rows.type.list_size)
    return matrix.copy() if copy else matrix
