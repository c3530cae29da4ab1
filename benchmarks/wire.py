"""Bytes a sample on the wire, and how fast a message becomes tensors.

    python -m benchmarks.wire

Every stream in mini-batches of 4096 samples at zstd level 3: ours, clustered by session and with histories as windows,
against varint records of as many samples in time order. All cover the same fields: features, dense values, labels and
which samples are of one session; what lineage adds stands in the context. rm1 is also compared with the same records
merely clustered and with its entropy floor; its decoding with that of the expanded batch in the same codec.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import zstandard

from benchmarks.floor import floor_bytes
from benchmarks.records import features_only, json_bytes, plain_ikjt_bytes, varint_bytes
from benchmarks.rm import BATCH, STREAMS, Stream
from benchmarks.turns import Result, in_turns, sized, timed, with_context
from streams.ikjt.ikjt import Ikjt
from streams.ikjt.partial import as_windows
from streams.ikjt.windows import PartialIkjt
from streams.minibatch import MiniBatch
from streams.wire import decode, encode
from streams.wire.layout import HEADER_BYTES

LEVEL: Final = 3
BATCHES: Final = 3
SEED: Final = 0
CACHE: Final = Path(".recd/cache")
ROUNDS: Final = 31
_WORTH_IT: Final = 0.8
"""Share of the exact form's values above which windows do not pay for their starts and lengths."""
Line = Callable[[Result], None]


def windowed(batch: MiniBatch, owner: npt.NDArray[Any] | None = None) -> MiniBatch:
    """Groups as windows where that stores far fewer values. Buffers are those of sessions, or of other owners [B]."""
    owner = batch.lineage.session_id if owner is None else owner
    groups = []
    for group in batch.groups:
        windows = as_windows(group, owner) if isinstance(group, Ikjt) else group
        groups.append(windows if windows.num_values < _WORTH_IT * group.num_values else group)
    return replace(batch, groups=tuple(groups))


def as_kjt(batch: MiniBatch) -> MiniBatch:
    """Every sample with rows of its own."""
    inverse = np.arange(len(batch), dtype=np.int32)
    return replace(batch, groups=tuple(Ikjt(group.group, group.expand(), inverse) for group in batch.groups))


def tensors(message: bytes) -> list[Any]:
    """A message as tensors that share the memory of its columns: ready to be copied to a device."""
    return tensors_of(decode(message))


def tensors_of(batch: MiniBatch) -> list[Any]:
    """Labels, dense columns, and of each group its inverse, its windows, and values and offsets of its features."""
    import torch

    arrays: list[Any] = [batch.labels, batch.dense]
    for group in batch.groups:
        arrays.append(group.inverse)
        if isinstance(group, PartialIkjt):
            arrays += [group.start, group.length]
        stored = group.buffers if isinstance(group, PartialIkjt) else group.features
        for rows in stored.values():
            arrays += [rows.values, rows.offsets]
    return [torch.from_numpy(array) for array in arrays]


def keyed_jagged_tensor(message: bytes) -> object:
    """A message of expanded rows as TorchRec's type, whose values lie in one piece."""
    from streams.ikjt.torchrec import to_kjt

    return to_kjt(decode(message).groups)


def decompressed(message: bytes) -> bytes:
    """What zstd alone has to do for a message."""
    return zstandard.ZstdDecompressor().decompress(message[HEADER_BYTES:])


def ratio_line(name: str, clustered: list[MiniBatch], in_time: list[MiniBatch]) -> Result:
    """`ikjt.wire.NAME.bytes_ratio`; the clustered batches hold the groups that are sent."""
    ours, theirs, text, lineage = [], [], [], []
    for message, other in zip(clustered, in_time, strict=True):
        ours.append(len(encode(features_only(message), level=LEVEL)) / len(message))
        lineage.append(len(encode(message, level=LEVEL)) / len(message) - ours[-1])
        theirs.append(varint_bytes(other, LEVEL) / len(other))
        text.append(json_bytes(other, LEVEL) / len(other))
    return sized(
        f"ikjt.wire.{name}.bytes_ratio",
        ours,
        "varint records in time order",
        theirs,
        np.divide(theirs, ours),
        json_in_time_order=round(float(np.median(text)), 2),
        lineage_adds=round(float(np.median(lineage)), 2),
        samples=[len(batch) for batch in clustered],
        sessions=[batch.num_sessions for batch in clustered],
        zstd_level=LEVEL,
    )


def synthetic(name: str) -> Iterator[Result]:
    """The lines of one synthetic stream."""
    laws = STREAMS[name]
    stream = Stream(laws, SEED)
    clustered = [stream.clustered(k) for k in range(BATCHES)]
    sent = list(map(windowed, clustered))
    floors = [
        floor_bytes(laws, BATCH, batch.num_sessions, sum(group.num_values for group in batch.groups)) for batch in sent
    ]
    parts = {part: round(float(np.median([floor[part] for floor in floors])), 2) for part in floors[0]}
    line = ratio_line(name, sent, [stream.in_time_order(k) for k in range(BATCHES)])
    yield with_context(line, {"recd_storage_ratio": 3.71, "floor": parts, "seed": SEED})
    if name != "rm1":
        return
    ours = [len(encode(features_only(batch), level=LEVEL)) / BATCH for batch in sent]
    exact = [len(encode(features_only(batch), level=LEVEL)) / BATCH for batch in clustered]
    records = [varint_bytes(batch, LEVEL) / BATCH for batch in clustered]
    yield sized(
        "ikjt.wire.rm1.over_clustered",
        ours,
        "varint records clustered by session",
        records,
        np.divide(records, ours),
        json_clustered=round(json_bytes(clustered[0], LEVEL) / BATCH, 2),
        ikjt_plain_int32=round(plain_ikjt_bytes(clustered[0], LEVEL) / BATCH, 2),
        ikjt_exact_form=round(float(np.median(exact)), 2),
    )
    floor = [each["all"] for each in floors]
    yield sized("ikjt.wire.rm1.over_floor", ours, "entropy floor", floor, np.divide(ours, floor), floor=parts)
    yield decoding(sent[0])


def decoding(batch: MiniBatch) -> Result:
    """`ikjt.decode.rm1.over_kjt`, how much of it is zstd, and how fast messages are written."""
    ours, plain = encode(batch, level=LEVEL), encode(as_kjt(batch), level=LEVEL)
    writing, reading, expanded, torchrec, zstd, zstd_expanded = in_turns(
        partial(encode, batch, level=LEVEL),
        partial(tensors, ours),
        partial(tensors, plain),
        partial(keyed_jagged_tensor, plain),
        partial(decompressed, ours),
        partial(decompressed, plain),
        rounds=ROUNDS,
    )
    other = np.ones(1 << 24, np.int64)
    cold = in_turns(partial(tensors, ours), partial(tensors, plain), before=other.sum, rounds=ROUNDS)
    line = timed("ikjt.decode.rm1.over_kjt", reading, "the expanded batch, same codec", expanded, "samples/ms",
                 BATCH * 1e6)  # fmt: skip
    write_ms = float(np.median(writing)) / 1e6
    column_bytes = sum(group.num_values for group in batch.groups) * 8
    context = {
        "caches": "warm",
        "cold_ratio": round(float(np.median(cold[1] / cold[0])), 3),
        "zstd_share": round(float(np.median(zstd / reading)), 3),
        "zstd_share_expanded": round(float(np.median(zstd_expanded / expanded)), 3),
        "zstd_ratio": round(float(np.median(zstd_expanded / zstd)), 3),
        "ids": sum(group.num_values for group in batch.groups),
        "ids_expanded": sum(group.num_values_expanded for group in batch.groups),
        "ratio_to_a_KeyedJaggedTensor": round(float(np.median(torchrec / reading)), 3),
        "encode_samples_per_s": round(BATCH / write_ms * 1000),
        "encode_MB_of_ids_per_s": round(column_bytes / 1e3 / write_ms),
        "message_bytes": len(ours),
        "expanded_message_bytes": len(plain),
        "seed": SEED,
    }
    return with_context(line, context)


def movielens() -> Result:
    """MovieLens-100K through the real core: 30-minute sessions, the last 50 liked items."""
    from benchmarks.movielens import log, mini_batches
    from infra.config import from_values
    from infra.demo.movielens import prepared
    from infra.presets import movielens as preset

    config = from_values(preset())
    config = replace(config, batch=replace(config.batch, samples=BATCH))
    lines = list(log(prepared(CACHE)))
    clustered = mini_batches(config, lines, gap_ms=config.session.gap_ms)
    in_time = mini_batches(config, lines, gap_ms=1)
    count = min(len(clustered), len(in_time)) // 2
    # From the middle of the log on, when histories are long; the last one is shorter.
    chosen = slice(count, 2 * count - 1)
    return ratio_line("movielens", list(map(windowed, clustered[chosen])), in_time[chosen])


def kuairand(data: Path | None) -> Result:
    """The KuaiRand sample, or a line that says that it is not there."""
    from benchmarks.kuairand import Log, present

    if data is None or not present(data):
        return {"id": "ikjt.wire.kuairand.bytes_ratio", "value": None, "context": {"not present": "set RECD_DATA"}}
    log = Log(data)
    order = log.clustered()
    starts = range(0, len(log) - BATCH + 1, 4 * BATCH)
    chosen = [order[start : start + BATCH] for start in starts]
    # Sessions are thin here, and a user's next one goes on with the same history.
    clustered = [windowed(log.batch(which), log.users[which]) for which in chosen]
    in_time = [log.batch(np.arange(start, start + BATCH)) for start in starts]
    return ratio_line("kuairand", clustered, in_time)


def measure() -> Iterator[Result]:
    """Every line of this file."""
    for name in STREAMS:
        yield from synthetic(name)
    yield movielens()
    yield kuairand(Path(os.environ["RECD_DATA"]) if "RECD_DATA" in os.environ else None)


def main() -> None:
    """Print one result a line."""
    for line in measure():
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
