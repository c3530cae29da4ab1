"""The working copy of a partition's profiles: read before events are fed, written after a cut is committed.

Owns whether the copy can be believed, and its repair from the changelog. Imports no client: the store and the changelog
come in as protocols.

The copy's tag names the changelog, the offset up to which the copy holds it, and the owner. The truth is what the
changelog held at the last committed cut (`through`). Where the tag says anything else, the copy is repaired: from the
tag's offset if it is of this changelog and not beyond the truth, else from nothing.

A store that does not answer is never taken for an empty one: the partition waits here with all that it holds, asks
again after pauses of up to 5 s, and goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from sessionizer.outlet import Changelog, FencedError
from state.profile_store import ProfileStore, Tag
from state.store import MISSING, Missing
from streams.errors import RetryableError
from streams.metrics import Reporter

_ATTEMPTS: Final = 3
"""A copy that is found wrong again right after a repair has another writer, or a server that forgets."""
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0
Answer = TypeVar("Answer")
Log = Callable[[str, Mapping[str, object]], None]
Pause = Callable[[float], bool]
"""Waits for so many seconds, or until the partition is to stop; True if it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlace:
    """Which working copy, whom to tell about it, and how its partition waits."""

    partition: int
    shelf: str
    reporter: Reporter
    log: Log
    pause: Pause


def _nothing() -> None:
    """What has to be done before waiting, where nothing has."""


class ProfileCopy:
    """The working copy of one partition, from its recovery on."""

    def __init__(self, place: CopyPlace, store: ProfileStore, changelog: Changelog) -> None:
        self._place = place
        self._store = store
        self._changelog = changelog
        self._through = 0
        self._tag: Tag | None = None

    def reach(self) -> None:
        """Wait until the store answers. RetryableError, here and below, if the partition is to stop meanwhile."""
        self._until_answered(lambda: self._store.read(self._place.shelf, []))

    def open(self, through: int) -> None:
        """Take the copy over as it must be at a cut: older owners can change it no more."""
        self._through = through
        if not self._until_answered(lambda: any(self._repair() for _ in range(_ATTEMPTS))):
            raise self._unsteady()

    def read(self, users: Sequence[int], before_waiting: Callable[[], None] = _nothing) -> list[bytes | Missing]:
        """The profiles of these users as of the last cut; `before_waiting` is called if that may take long."""
        values = self._until_answered(lambda: self._read(users), before_waiting)
        if values is None:
            raise self._unsteady()
        self._place.reporter.count("recd_profiles_read_total", len(users), partition=self._label)
        return values

    def write(self, values: Mapping[int, bytes | None], through: int) -> None:
        """What has changed by the cut that is committed now; `through` is the changelog's offset at it."""
        self._through = through
        if values and not self._until_answered(lambda: self._write(values)):
            raise self._unsteady()

    def close(self) -> None:
        """Leave; the copy stays."""
        self._changelog.close()

    @property
    def _expected(self) -> bytes | Missing:
        return MISSING if self._tag is None else self._tag.encode()

    @property
    def _label(self) -> str:
        return str(self._place.partition)

    def _read(self, users: Sequence[int]) -> list[bytes | Missing] | None:
        """None if the copy changes again and again."""
        for _ in range(_ATTEMPTS):
            tag, values = self._store.read(self._place.shelf, users)
            if tag == self._expected:
                return values
            self._repair()
        return None

    def _write(self, values: Mapping[int, bytes | None]) -> bool:
        """False if the copy changes again and again. What was written under a lost answer is repaired, as any other."""
        assert self._tag is not None, "a copy is opened before it is written"
        tag = Tag(topic=self._tag.topic, offset=self._through, owner=self._tag.owner)
        if self._store.write(self._place.shelf, values, self._expected, tag.encode()):
            self._tag = tag
            self._place.reporter.count("recd_profiles_written_total", len(values), partition=self._label)
            return True
        return any(self._repair() for _ in range(_ATTEMPTS))

    def _repair(self) -> bool:
        """Claim the copy and bring it to `through`; False if it changed under our hands."""
        shelf = self._place.shelf
        found, _ = self._store.read(shelf, [])
        old = MISSING if found is MISSING else Tag.decode(found)
        if self._tag is not None and old is not MISSING and old.owner > self._tag.owner:
            raise FencedError(f"another worker has taken over the profiles of partition {self._place.partition}")
        identity = self._changelog.identity
        trusted = old is not MISSING and old.topic == identity and 0 <= old.offset <= self._through
        owner = 1 + max(0 if old is MISSING else old.owner, 0 if self._tag is None else self._tag.owner)
        tag = Tag(topic=identity, offset=old.offset if old is not MISSING and trusted else 0, owner=owner)
        taken = self._store.write(shelf, {}, found, tag.encode()) if trusted else self._clear(found, tag)
        if not taken:
            return False
        self._tag = tag
        return tag.offset == self._through or self._catch_up(tag)

    def _clear(self, found: bytes | Missing, tag: Tag) -> bool:
        if found is not MISSING:
            self._tell("profiles of another changelog, or of its future, are removed from the store", tag)
        return self._store.clear(self._place.shelf, found, tag.encode())

    def _catch_up(self, tag: Tag) -> bool:
        self._tell("profiles are repaired from the changelog", tag)
        self._place.reporter.count("recd_profile_repairs_total", partition=self._label)
        for values, after in self._changelog.read(tag.offset, self._through):
            new = Tag(topic=tag.topic, offset=after, owner=tag.owner)
            if not self._advance(values, new):
                return False
            self._place.reporter.gauge("recd_profile_repair_left", self._through - after, partition=self._label)
        # Records that compaction removed, and the marks of transactions, have offsets too.
        if not self._advance({}, Tag(topic=tag.topic, offset=self._through, owner=tag.owner)):
            return False
        self._place.reporter.gauge("recd_profile_repair_left", 0, partition=self._label)
        self._tell("profiles are whole again", tag)
        return True

    def _advance(self, values: Mapping[int, bytes | None], tag: Tag) -> bool:
        if not self._store.write(self._place.shelf, values, self._expected, tag.encode()):
            return False
        self._tag = tag
        return True

    def _tell(self, event: str, tag: Tag) -> None:
        fields = {"partition": self._place.partition, "from_offset": tag.offset, "to_offset": self._through}
        self._place.log(event, fields)

    def _until_answered(self, ask: Callable[[], Answer], before_waiting: Callable[[], None] = _nothing) -> Answer:
        """Ask until there is an answer. Said once, and counted at every attempt."""
        pause_s, told = _FIRST_PAUSE_S, False
        while True:
            try:
                answer = ask()
            except RetryableError as error:
                self._place.reporter.count("recd_profile_failures_total", partition=self._label)
                if not told:
                    told = True
                    self._tell_of(error)
                    before_waiting()
                if self._place.pause(pause_s):
                    raise RetryableError(f"partition {self._place.partition} has no profiles yet: {error}") from error
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            else:
                if told:
                    self._place.log("profiles are there again", {"partition": self._place.partition})
                return answer

    def _tell_of(self, error: RetryableError) -> None:
        told = {
            "partition": self._place.partition,
            "error": str(error),
            "what_to_do": "see to what the error says; nothing is lost meanwhile, and the partition goes on by itself",
        }
        self._place.log("partition waits for its users' profiles", told)

    def _unsteady(self) -> RetryableError:
        return RetryableError(
            f"the profiles of partition {self._place.partition} change while they are repaired; see whether somebody "
            f"else writes to {self._place.shelf}, or the store forgets what was written"
        )
