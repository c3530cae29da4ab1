"""Whether a partition's configuration may go on from a cut.

Owns the versions of cuts and what is in the fingerprint of a configuration. Never reads a cut's arrays.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from sessionizer.config import BatchConfig, JoinConfig, SessionConfig
from streams.errors import ConfigError
from streams.events.schema import EventSchema

ALGORITHM: Final = 5
"""Raised whenever the same events would give other batches."""
VERSION: Final = 9
VERSION_OF_TWO: Final = 10
"""Of a partition with outcomes in a topic of their own."""
_OLDEST: Final = 7
"""7 and 8 are the same of before anything could be shed."""


def fingerprint(
    schema: EventSchema, sessions: SessionConfig, batches: BatchConfig, joins: JoinConfig, *, with_outcomes: bool
) -> int:
    """64 bits that change whenever the same events could give other batches."""
    packing = asdict(batches)
    del packing["target_fresh_ms"]  # Clock marks say when it acted. So it may change while something is held.
    told = [ALGORITHM, schema.fingerprint(), asdict(sessions), packing, asdict(joins)]
    text = json.dumps([*told, "outcomes in a topic of their own"] if with_outcomes else told, sort_keys=True)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def check(header: Mapping[str, Any], own: int, *, external: bool) -> None:
    """Raise ConfigError where a core of the fingerprint `own` cannot go on from a cut; `external`: its profiles are."""
    if not _OLDEST <= header["version"] <= VERSION_OF_TWO:
        raise ConfigError(
            f"the cut has version {header['version']}, this recd reads {_OLDEST} to {VERSION_OF_TWO}; "
            "start the version that wrote it, or choose another worker.app and mini-batch topic"
        )
    if header["profiles"] != "cuts" and not external:
        raise ConfigError(
            f'partition {header["partition"]} keeps its profiles outside (profiles.store = "{header["profiles"]}"), '
            "and without them every history would begin empty; set that again"
        )
    if header["fingerprint"] != own and header["held"]:
        raise ConfigError(
            f"partition {header['partition']} holds {header['held']} events under another configuration of event, "
            "outcomes, labels, features, histories, groups, session, join, batch or topics.outcomes; restore the old "
            "one, drain with an end mark (`recd ingest --end`), then change it"
        )
