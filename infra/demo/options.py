"""What a person may choose about a demo.

Owns: the choices and their limits. Never: acts on them.
"""

from __future__ import annotations

from dataclasses import dataclass

from streams.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoOptions:
    """What a person may choose."""

    samples: int | None = None
    """Size of a synthetic log; None is MovieLens."""
    batch: int = 256
    seed: int = 0
    full_parity: bool = False
    """Compare 200 steps with the plain model instead of a slice."""
    keep: bool = False
    """Leave the services running afterwards."""
    memory: bool = False
    """The in-memory stand-in even where Kafka could run."""

    rate: float | None = None
    """Events a second that are sent; None is flat out."""

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ConfigError(f"--batch {self.batch}: a mini-batch holds at least 1 sample")
