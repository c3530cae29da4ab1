"""Account: what became of every event of a partition, checked all the time.

events = impressions + labelled + outcomes + tombstones + duplicates + late + dead_lettered, and
impressions + labelled = emitted + sampled_out + shed + erased + held. Corrections are counted apart. What happens to
emitted samples is the trainer's account. Every outcome that has acted is one of joined, settled, missed and orphans
(`join`).
"""

from __future__ import annotations

import msgspec

from streams.errors import InvariantError


class Account(msgspec.Struct, kw_only=True):
    """Running totals of one partition since its first event; part of every cut."""

    events: int = 0
    """Records read, whatever they were."""
    impressions: int = 0
    labelled: int = 0
    outcomes: int = 0
    tombstones: int = 0
    duplicates: int = 0
    late: int = 0
    dead_lettered: int = 0
    emitted: int = 0
    """Samples in emitted mini-batches."""
    sampled_out: int = 0
    """Samples without a positive label that were left out on purpose (`join.negative_rate`)."""
    shed: int = 0
    """Samples that were left out because the trainer was too far behind (`worker.when_ahead`)."""
    corrected: int = 0
    """Corrections in emitted mini-batches: copies of samples that are counted once, where they left before."""
    forgotten: int = 0
    """Samples that could be corrected no more before their window was over, because of `session.max_held_samples`."""
    erased: int = 0
    """Samples of users that were erased before they were emitted."""
    joined: int = 0
    """Outcomes that met an impression whose sample still waited, or may be corrected."""
    settled: int = 0
    """Outcomes of samples that had left because nothing could change them."""
    missed: int = 0
    """Outcomes that came after their window, or after a cap had sent their sample off."""
    orphans: int = 0
    """Outcomes of impressions that nobody has seen."""
    batches: int = 0
    sessions: int = 0
    """Whole sessions and parts of capped ones that were emitted."""
    sessions_cut: int = 0
    """Of these, parts that a cap cut off before their session ended."""

    def check(self, held: int) -> None:
        """Raise InvariantError unless both identities hold, with `held` samples waiting in the core."""
        accounted = (
            self.impressions
            + self.labelled
            + self.outcomes
            + self.tombstones
            + self.duplicates
            + self.late
            + self.dead_lettered
        )
        if self.events != accounted:
            raise InvariantError(f"{self.events} events were read but {accounted} are accounted for: {self}")
        left = self.emitted + self.sampled_out + self.shed + self.erased
        if self.impressions + self.labelled != left + held:
            raise InvariantError(f"{self.impressions + self.labelled} samples != {left} + {held} held: {self}")

    def __add__(self, other: Account) -> Account:
        """Totals of two partitions."""
        return Account(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})
