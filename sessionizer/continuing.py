"""Whether a core can go on from a cut.

Owns the version of cuts and what must not have changed since one was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sessionizer.config import ProfilesConfig
from streams.errors import ConfigError

CUT_VERSION: Final = 3


def check_header(header: Mapping[str, Any], fingerprint: int, profiles: ProfilesConfig) -> None:
    """Raise ConfigError, with the way out, if the cut cannot be continued under this configuration."""
    partition = header["partition"]
    if header["version"] != CUT_VERSION:
        raise ConfigError(
            f"the cut has version {header['version']}, this recd reads {CUT_VERSION}; start the version that "
            "wrote it, or choose another worker.app and mini-batch topic"
        )
    if header.get("profiles", "cuts") != "cuts" and not profiles.external:
        raise ConfigError(
            f'partition {partition} keeps its profiles outside (profiles.store = "{header["profiles"]}"), and without '
            "them every history would begin empty; set that again"
        )
    if header["fingerprint"] != fingerprint and header["held"]:
        raise ConfigError(
            f"partition {partition} holds {header['held']} events under another configuration of event, labels, "
            "features, histories, groups, session or batch; restore the old one, drain with an end mark "
            "(`recd ingest --end`), then change it"
        )
