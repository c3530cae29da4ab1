"""What set-up has compiled, for a process that runs tests: a copy in a directory of its own.

Numba keeps compiled loops beside their source, or under `NUMBA_CACHE_DIR` in a folder for each folder of sources.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from numba.core.caching import _CacheLocator


def copy(root: Path, packages: Iterable[str], target: Path) -> None:
    """Copy what is newer beside the sources than in `target`, an index together with all that it names."""
    for package in packages:
        for index in (root / package).rglob("__pycache__/*.nbi"):
            source = index.parents[1] / "any.py"
            # The name that Numba itself gives; it is not typed.
            name = _CacheLocator.get_suitable_cache_subpath(str(source))  # type: ignore[no-untyped-call]
            folder = target / str(name)
            known = folder / index.name
            if known.exists() and known.stat().st_mtime_ns >= index.stat().st_mtime_ns:
                continue
            folder.mkdir(parents=True, exist_ok=True)
            for part in index.parent.glob(f"{index.stem}.*"):
                shutil.copy2(part, folder)
