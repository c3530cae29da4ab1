"""Advice: what was found about a stream and what should be done, as plain figures.

Owns the names of the figures, which are what `recd advise --json` prints. Never computes one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Form = Literal["exact", "partial"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AtHold:
    """A feature or group at one hold time."""

    hold_ms: int
    """W; -1: until the session ends."""
    samples_per_session: float
    """S_W, counted in the batches that were formed."""
    predicted: float
    """The formula on that S_W and d."""
    modelled: float
    """The formula on the S_W that follows from S and the rate alone, and d."""
    measured: float
    """Values before / after in the batches that were formed, rows compared within sessions: what is predicted."""
    whole_batch: float
    """The same with rows of different sessions compared too: what an IKJT reaches."""
    partial_predicted: float | None
    """The partial form if every change appends one id; None where there is no such form."""
    partial: float | None
    """Values before / after with windows of shared buffers, within sessions; None where it was not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitAdvice:
    """A feature, or features taken as one group. Totals are of batches of whole sessions."""

    name: str
    features: tuple[str, ...]
    mean_length: float
    """Ids a sample, of all its features."""
    samples_per_session: float
    """S, of whole sessions."""
    unchanged: float
    """d: how often nothing of it changed against the user's sample before in the session."""
    share_exact: float
    """Of the ids: in rows that their session has in the batch already."""
    share_windows: float
    """Of the ids: in new rows, but in windows of the session's buffer; 0 where there is no partial form."""
    values_before: int
    values_after: int
    """In the exact form, in whole batches."""
    values_partial: int | None
    """In the partial form, within sessions."""
    bytes_before: int
    bytes_after: int
    """In the exact form."""
    bytes_partial: int | None
    at: tuple[AtHold, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A group that is recommended."""

    unit: UnitAdvice
    form: Form
    reason: str

    @property
    def values_after(self) -> int:
        """In the recommended form."""
        partial = self.unit.values_partial
        return partial if self.form == "partial" and partial is not None else self.unit.values_after

    @property
    def bytes_after(self) -> int:
        """In the recommended form."""
        partial = self.unit.bytes_partial
        return partial if self.form == "partial" and partial is not None else self.unit.bytes_after


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """Two groups that are better apart, and what one group of both would give."""

    groups: tuple[str, str]
    change_together: float
    """Of the samples at which either changes: at which both do."""
    factors: tuple[float, float]
    factor_as_one: float
    factor_apart: float
    """Of both together, as they are."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tower:
    """A part of a model that mixes groups: it runs once for each distinct tuple of their rows."""

    groups: tuple[str, ...]
    num_features: int
    unchanged: float
    """How often none of them changed."""
    predicted: float
    measured: float
    """Samples / distinct tuples, in batches of whole sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldAdvice:
    """All features at one hold time, in the recommended groups and forms."""

    hold_ms: int
    samples_per_session: float
    modelled_samples_per_session: float
    wait_p50_ms: int
    """How long a sample waits before its batch is sealed, in event time; session.lateness_ms comes on top."""
    wait_p99_ms: int
    predicted: float
    """Lookups before / after by the formula."""
    modelled: float
    """The same from S and the rate alone."""
    measured: float
    """The same in the batches that were formed, rows compared within sessions."""
    exact: float
    """The same with every group in the exact form."""
    whole_batch: float
    """As measured, with what repeats between sessions in groups of the exact form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Everything."""

    verdict: str
    """One sentence, or two."""
    pays: Literal["yes", "little", "hardly"]
    samples: int
    sessions: int
    partitions: int
    duration_ms: int
    samples_per_session: float
    samples_per_s: float
    """r, within sessions; -1 where all samples of a session share their milliseconds."""
    batch_samples: int
    features: tuple[UnitAdvice, ...]
    groups: tuple[Planned, ...]
    """Every feature is in one of them."""
    configured: tuple[UnitAdvice, ...]
    """The groups of several features that the configuration has now."""
    apart: tuple[Apart, ...]
    towers: tuple[Tower, ...]
    holds: tuple[HoldAdvice, ...]
    fill_ms: int
    """How long a partition takes to fill a batch, on average: a hold time by itself."""
    lookups_before: int
    lookups_after: int
    """In the recommended groups and forms, in whole batches of whole sessions."""
    bytes_before: int
    bytes_after: int

    @property
    def factor(self) -> float:
        """Lookups before / after, of sessions held until they end: what deduplication is judged by."""
        return self.holds[-1].measured
