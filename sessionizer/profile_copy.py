"""The working copy of a partition's profiles: read before events are fed, written after a cut is committed.

Owns whether the copy can be believed, and its repair from the changelog. Imports no client: the store and the changelog
come in as protocols.

The copy's tag names the changelog, the offset up to which the copy holds it, and the owner. The truth is what the
changelog held at the last committed cut (`through`). Where the tag says anything else, the copy is repaired: from the
tag's offset if it is of this changelog and not beyond the truth, else from nothing. A store that does not answer is
never taken for an empty one: RetryableError, and the partition waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from sessionizer.outlet import Changelog, FencedError
from state.profile_store import ProfileStore, Tag
from state.store import MISSING, Missing
from streams.errors import RetryableError
from streams.metrics import Reporter

_ATTEMPTS: Final = 3
"""A copy that is found wrong again right after a repair has another writer, or a server that forgets."""
Log = Callable[[str, Mapping[str, object]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlace:
    """Which working copy, and whom to tell about it."""

    partition: int
    shelf: str
    reporter: Reporter
    log: Log


class ProfileCopy:
    """The working copy of one partition, from its recovery on."""

    def __init__(self, place: CopyPlace, store: ProfileStore, changelog: Changelog) -> None:
        self._place = place
        self._store = store
        self._changelog = changelog
        self._through = 0
        self._tag: Tag | None = None

    def reach(self) -> None:
        """RetryableError if the store does not answer."""
        with self._answering():
            self._store.read(self._place.shelf, [])

    def open(self, through: int) -> None:
        """Take the copy over as it must be at a cut: older owners can change it no more."""
        self._through = through
        with self._answering():
            for _ in range(_ATTEMPTS):
                if self._repair():
                    return
        raise self._unsteady()

    def read(self, users: Sequence[int]) -> list[bytes | Missing]:
        """The profiles of these users as of the last cut."""
        with self._answering():
            for _ in range(_ATTEMPTS):
                tag, values = self._store.read(self._place.shelf, users)
                if tag == self._expected:
                    self._place.reporter.count("recd_profiles_read_total", len(users), partition=self._label)
                    return values
                self._repair()
        raise self._unsteady()

    def write(self, values: Mapping[int, bytes | None], through: int) -> None:
        """What has changed by the cut that is committed now; `through` is the changelog's offset at it."""
        self._through = through
        if not values:
            return
        assert self._tag is not None, "a copy is opened before it is written"
        tag = Tag(topic=self._tag.topic, offset=through, owner=self._tag.owner)
        with self._answering():
            if self._store.write(self._place.shelf, values, self._expected, tag.encode()):
                self._tag = tag
                self._place.reporter.count("recd_profiles_written_total", len(values), partition=self._label)
                return
            for _ in range(_ATTEMPTS):
                if self._repair():
                    return
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

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """A failure to wait out is counted, and says what it holds up."""
        try:
            yield
        except RetryableError as error:
            self._place.reporter.count("recd_profile_failures_total", partition=self._label)
            raise RetryableError(
                f"partition {self._place.partition} waits for its users' profiles, and nothing is lost meanwhile: "
                f"{error}"
            ) from error

    def _unsteady(self) -> RetryableError:
        return RetryableError(
            f"the profiles of partition {self._place.partition} change while they are repaired; see whether somebody "
            f"else writes to {self._place.shelf}, or the store forgets what was written"
        )
