"""User profiles: what is remembered of users between their sessions, as columns, and each one as bytes.

Owns the columns of many profiles and the bytes of one, which the changelog and the working copy share. Never knows
where profiles are kept, nor when they change.

A profile, version 1: u8 version, u8 number of histories H, u32 fingerprint of the histories, u32 partition (both
little-endian); then for each history three varints (entries ever, entries ever minus those before the newest time,
entries kept = K) and K entries of three varints each, oldest first: item, event time and offset, the last two as
differences to the entry before, all three zigzagged. A varint has seven bits a byte, the lowest first, and a high bit
on all bytes but the last.

Shape suffixes: U users, H histories, V entries of all of them.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from state.profile_bytes import MOST_VARINT, read, write
from state.store import MISSING, Missing
from streams.errors import InvariantError
from streams.events.schema import History

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

VERSION: Final = 1
_HEAD: Final = struct.Struct("<BBII")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Profiles:
    """Profiles of U users with H histories each."""

    user: I64
    """[U], distinct."""
    total_UH: I64
    """Entries that ever entered."""
    visible_UH: I64
    """Of these, the ones with an earlier time than the newest."""
    lengths_UH: I64
    """Entries that are kept: the newest ones."""
    item: I64
    """[V], user by user, history by history, oldest first."""
    time_ms: I64
    """[V], event time at which the entry entered: samples after it see it."""
    offset: I64
    """[V], of the record that says so."""

    def __len__(self) -> int:
        return len(self.user)

    @property
    def empty(self) -> npt.NDArray[np.bool_]:
        """[U], whether nothing is remembered of the user."""
        return np.asarray(self.total_UH.max(axis=1, initial=0) == 0)


def histories_fingerprint(histories: Sequence[History]) -> int:
    """32 bits that change whenever entries would have been kept otherwise; profiles of another one count as empty."""
    text = json.dumps([[history.name, history.last, history.label] for history in histories])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little")


def encode(profiles: Profiles, fingerprint: int, partition: int) -> list[bytes]:
    """The bytes of each user's profile."""
    num_users, num_histories = profiles.total_UH.shape
    head = np.frombuffer(_HEAD.pack(VERSION, num_histories, fingerprint, partition), np.uint8)
    per_user = len(head) + 3 * MOST_VARINT * num_histories
    out = np.empty(num_users * per_user + 3 * MOST_VARINT * len(profiles.item), np.uint8)
    ends_U = np.empty(num_users, np.int64)
    counts = (profiles.total_UH, profiles.visible_UH, profiles.lengths_UH)
    write(head, counts, (profiles.item, profiles.time_ms, profiles.offset), out, ends_U)
    data, ends = out[: ends_U[-1] if num_users else 0].tobytes(), ends_U.tolist()
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def decode(users: I64, values: Sequence[bytes | Missing], fingerprint: int, num_histories: int) -> Profiles:
    """Profiles from their bytes; a missing one, or one of other histories, is empty.

    Raises InvariantError for bytes that are damaged or of a later version.
    """
    ours = _HEAD.pack(VERSION, num_histories, fingerprint, 0)[:6]
    found = [b"" if value is MISSING else value for value in values]
    for user, value in zip(users.tolist(), found, strict=True):
        if value and value[0] > VERSION:
            raise InvariantError(
                f"the profile of user {user} has version {value[0]}, this recd reads {VERSION}: update it"
            )
        if value and len(value) < _HEAD.size:
            raise _damaged(user)
    bodies = [value[_HEAD.size :] if value.startswith(ours) else b"" for value in found]
    ends_U = np.cumsum([len(body) for body in bodies], dtype=np.int64)
    data = np.frombuffer(b"".join(bodies), np.uint8)
    counts_UH = np.zeros((3, len(users), num_histories), np.int64)
    columns_V = np.empty((3, len(data) // 3), np.int64)
    num = read(data, ends_U, counts_UH, columns_V)
    if num < 0:
        raise _damaged(int(users[-1 - num]))
    total_UH, visible_UH, lengths_UH = counts_UH
    item, time_ms, offset = columns_V[:, :num]
    return Profiles(
        user=users,
        total_UH=total_UH,
        visible_UH=visible_UH,
        lengths_UH=lengths_UH,
        item=item,
        time_ms=time_ms,
        offset=offset,
    )


def _damaged(user: int) -> InvariantError:
    return InvariantError(
        f"the profile of user {user} is damaged; if its copy in the store is, remove that (it is made again from the "
        "changelog); if the changelog is, restore that topic"
    )
