"""The compiled rules of sessions: what every released row does to the sessions of a partition.

Owns the records of users and sessions and how they change; `windower` owns the arrays. The rules themselves are in
`windower`. Arguments that travel together are tuples:

    state   index, users, book, room (`waiting`), joining (`join`), memory (`corrections`)
    rows    keys, items, labels_RT, enters_RH, ends_RH, tips_RH (`rows`)
    lore    entries, free, num_free, chains, last (`history`)
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from sessionizer import history
from sessionizer.arrivals import MAX_MS, MIN_MS
from sessionizer.corrections import first_ms, note_capped, num_remembered, pop_first, remember
from sessionizer.hash_table import mix64, probe
from sessionizer.history import NONE
from sessionizer.join import IMPRESSION, OUTCOME, expect, leave, meet
from sessionizer.waiting import first_ready, requeue, take_out, wait
from streams.events.ids import NO_ID

INDEX = np.dtype([("key", "i8"), ("slot", "i4"), ("used", "i4")])
USER = np.dtype(
    [
        ("user", "i8"),
        ("first_ms", "i8"),  # first sample of the open part
        ("last_ms", "i8"),  # last sample of the session; MIN_MS: none in this epoch
        ("ripe_ms", "i8"),  # when the last sample of the open part is ripe at the latest
        ("session_id", "u8"),
        ("head", "i4"),  # rows of the open part, linked by `next`
        ("tail", "i4"),
        ("size", "i4"),
        ("newer", "i4"),  # neighbours in the list of open sessions
        ("older", "i4"),
        ("waiting_head", "i4"),  # closings of the user that wait, in order of time
        ("waiting_tail", "i4"),
        ("remembered_head", "i4"),  # rows of the user that have left and may be corrected, linked by `later`
        ("remembered_tail", "i4"),
        ("spare", "i4"),
    ]
)
BOOK = np.dtype(
    [
        ("oldest", "i8"),  # ends of the list of open sessions
        ("newest", "i8"),
        ("num_open", "i8"),
        ("num_samples", "i8"),  # in open and waiting sessions
        ("num_users", "i8"),
        ("num_pending", "i8"),  # outcomes that have still to act
        ("num_acted", "i8"),  # of these, done in this call
        ("num_closings", "i8"),  # of this call
    ]
)


@nb.njit(cache=True, nogil=True)
def _unlink(users: Any, book: Any, s: Any) -> None:
    older, newer = users[s].older, users[s].newer
    if older != NONE:
        users[older].newer = newer
    else:
        book[0].oldest = newer
    if newer != NONE:
        users[newer].older = older
    else:
        book[0].newest = older
    book[0].num_open -= 1


@nb.njit(cache=True, nogil=True)
def _link(users: Any, book: Any, s: Any) -> None:
    newest = book[0].newest
    users[s].older, users[s].newer = newest, NONE
    if newest != NONE:
        users[newest].newer = s
    else:
        book[0].oldest = s
    book[0].newest = s
    book[0].num_open += 1


@nb.njit(cache=True, nogil=True)
def _send(state: Any, keys: Any, closings: Any) -> None:
    """The closing that was just written leaves."""
    users, book, joining, memory = state[1], state[2], state[4], state[5]
    known, counts, (window_ms, early_ms, _hurry, corrects) = joining[0], joining[1], joining[4]
    closing = closings[book[0].num_closings]
    book[0].num_closings += 1
    book[0].num_samples -= closing.size
    if counts[0].num_known > 0:
        r = closing.head
        for _ in range(closing.size):
            times_out_ms = keys[r].time + window_ms + early_ms
            if corrects and keys[r].kind == IMPRESSION and times_out_ms > closing.ready_ms - closing.cut:
                remember(memory, users, keys, closing.slot, r, closing.session_id)
            else:
                leave(known, keys, r, times_out_ms)
            r = keys[r].next


@nb.njit(cache=True, nogil=True)
def _forget(state: Any, keys: Any) -> None:
    """The remembered row that was shown first can be corrected no more."""
    index, users, joining, memory = state[0], state[1], state[4], state[5]
    r = pop_first(memory)
    s = index[probe(index, keys[r].user)].slot
    users[s].remembered_head = keys[r].later
    if keys[r].later == NONE:
        users[s].remembered_tail = NONE
    leave(joining[0], keys, r, MIN_MS)


@nb.njit(cache=True, nogil=True)
def _close(state: Any, keys: Any, s: Any, close_ms: Any, cut: Any, now_ms: Any, closings: Any) -> None:
    """End the open part of a user: it leaves if all of it is ripe now, else it waits."""
    users, book, room, joining = state[1], state[2], state[3], state[4]
    closing, user = closings[book[0].num_closings], users[s]
    ripe_ms = user.ripe_ms
    if joining[4][2]:  # Outcomes may have settled some of its samples.
        ripe_ms, r = MIN_MS, user.head
        for _ in range(user.size):
            ripe_ms, r = max(ripe_ms, keys[r].ripe_ms), keys[r].next
    closing.close_ms, closing.ready_ms, closing.cut = close_ms, max(close_ms, ripe_ms), cut
    closing.user, closing.session_id, closing.slot = user.user, user.session_id, s
    closing.first_ms, closing.first_id = user.first_ms, keys[user.head].id
    closing.head, closing.size = user.head, user.size
    user.size = 0
    _unlink(users, book, s)
    # A cap cuts before the outcomes of that very moment have acted: what is ripe just then waits for them.
    if closing.ready_ms <= now_ms and ripe_ms <= now_ms - cut:
        _send(state, keys, closings)
    else:
        wait(room, users, keys, closing)


@nb.njit(cache=True, nogil=True)
def _pass(state: Any, keys: Any, now_ms: Any, gap_ms: Any, closings: Any) -> None:
    """Event time reaches `now_ms`: close what is over, send what is ready, forget what cannot change any more."""
    users, book, room, limits, memory = state[1], state[2], state[3], state[4][4], state[5]
    while book[0].oldest != NONE and users[book[0].oldest].last_ms + gap_ms <= now_ms:
        s = book[0].oldest
        _close(state, keys, s, users[s].last_ms + gap_ms, 0, now_ms, closings)
    if room[3][0].num_waiting > 0:
        place = first_ready(room)
        while place != NONE and room[0][place].ready_ms <= now_ms:
            closings[book[0].num_closings] = room[0][place]
            take_out(room, users, place)
            _send(state, keys, closings)
            place = first_ready(room)
    while first_ms(memory) + limits[0] + limits[1] <= now_ms:
        _forget(state, keys)


@nb.njit(cache=True, nogil=True)
def _make_way(state: Any, keys: Any, t: Any, max_held: Any, closings: Any) -> None:
    """Too many samples are held: those that have left already are forgotten first."""
    book, memory = state[2], state[5]
    while book[0].num_samples + num_remembered(memory) > max_held:
        if num_remembered(memory) > 0:
            _forget(state, keys)
            note_capped(memory)
        else:
            _evict(state, keys, t, closings)


@nb.njit(cache=True, nogil=True)
def _evict(state: Any, keys: Any, t: Any, closings: Any) -> None:
    """One session leaves early, because too many samples are held."""
    users, book, room = state[1], state[2], state[3]
    place = first_ready(room)
    if place == NONE:
        s = book[0].oldest
        users[s].ripe_ms = MIN_MS
        _close(state, keys, s, t + 1, 1, MAX_MS, closings)
        return
    closing = closings[book[0].num_closings]
    closings[book[0].num_closings] = room[0][place]
    closing.ready_ms, closing.cut = t + 1, 1
    take_out(room, users, place)
    _send(state, keys, closings)


@nb.njit(cache=True, nogil=True)
def slot_of(state: Any, chains: Any, user: Any) -> Any:
    """Slot of a user, who gets one if there is none."""
    index, users, book = state[0], state[1], state[2]
    at = probe(index, user)
    if index[at].used == 0:
        slot = book[0].num_users
        book[0].num_users += 1
        index[at].key, index[at].slot, index[at].used = user, slot, 1
        new = users[slot]
        new.user, new.last_ms, new.size = user, MIN_MS, 0
        new.waiting_head = new.waiting_tail = NONE
        new.remembered_head = new.remembered_tail = NONE
        history.start(chains, slot)
    return index[at].slot


@nb.njit(cache=True, nogil=True)
def _join(users: Any, book: Any, keys: Any, s: Any, r: Any, gap_ms: Any) -> None:
    """Add a row to its user's open part, opening a part, or a session, where there is none."""
    user, t = users[s], keys[r].time
    if user.size == 0:
        if user.last_ms == MIN_MS or t - user.last_ms >= gap_ms:
            user.session_id = mix64(mix64(np.uint64(keys[r].user)) ^ keys[r].id)
        user.first_ms, user.ripe_ms, user.head = t, MIN_MS, r
    else:
        keys[user.tail].next = r
        _unlink(users, book, s)
    keys[r].next = NONE
    user.tail, user.last_ms = r, t
    user.ripe_ms = max(user.ripe_ms, keys[r].ripe_ms)
    user.size += 1
    book[0].num_samples += 1
    _link(users, book, s)


@nb.njit(cache=True, nogil=True)
def _enter(rows: Any, s: Any, r: Any, item: Any, now_ms: Any, lore: Any) -> None:
    """A row's item enters the histories of its user, for samples later than `now_ms`."""
    keys, enters_RH = rows[0], rows[3]
    entries, free, num_free, chains, last = lore
    for h in range(len(last)):
        if enters_RH[r, h]:
            new = (item, now_ms, keys[r].offset)
            num_free[0] = history.append(entries, free, num_free[0], chains[s, h], new, last[h])


@nb.njit(cache=True, nogil=True)
def _see(s: Any, rows: Any, r: Any, lore: Any) -> None:
    """Give the row its view of the history, then add its item for those that come later."""
    keys, items, ends_RH, tips_RH = rows[0], rows[1], rows[4], rows[5]
    entries, free, num_free, chains, last = lore
    t = keys[r].time
    num_free[0] = history.look(chains, s, (entries, free, num_free[0], last), t, ends_RH[r], tips_RH[r])
    _enter(rows, s, r, items[r], t, lore)


@nb.njit(cache=True, nogil=True)
def _act(state: Any, rows: Any, lore: Any, pending: Any, before_ms: Any, gap_ms: Any, closings: Any) -> None:
    """Outcomes whose time, moved on by `early_ms`, is before `before_ms` act, each at its own moment."""
    book, room, joining, memory = state[2], state[3], state[4], state[5]
    keys, items, labels_RT = rows[0], rows[1], rows[2]
    chains, early_ms = lore[3], joining[4][1]
    while book[0].num_acted < book[0].num_pending and keys[pending[book[0].num_acted]].time + early_ms < before_ms:
        o = pending[book[0].num_acted]
        book[0].num_acted += 1
        now_ms = keys[o].time + early_ms
        _pass(state, keys, now_ms, gap_ms, closings)
        item, found = meet(joining, keys, labels_RT, o, room, memory)
        if items[o] != NO_ID:
            item, found = items[o], True
        if found:
            _enter(rows, slot_of(state, chains, keys[o].user), o, item, now_ms, lore)


@nb.njit(cache=True, nogil=True)
def advance(
    released: Any, rows: Any, state: Any, lore: Any, pending: Any, limits: Any, watermark_ms: Any, closings: Any
) -> None:
    """Take in released rows in order, then let event time reach the watermark; what leaves is in `closings`."""
    keys, items = rows[0], rows[1]
    index, users, book, queue, joining, memory = state[0], state[1], state[2], state[3][3], state[4], state[5]
    gap_ms, max_samples, max_age_ms, max_held = limits
    chains = lore[3]
    window_ms, early_ms, _hurry, corrects = joining[4]
    for r in released:
        t = keys[r].time
        if keys[r].kind == OUTCOME:
            pending[book[0].num_pending] = r
            book[0].num_pending += 1
            continue
        # Calls that would do nothing are not made: a call with tuples of arrays costs as much as a row.
        if book[0].num_acted < book[0].num_pending:
            _act(state, rows, lore, pending, t, gap_ms, closings)
        if (
            queue[0].num_waiting > 0
            or (book[0].oldest != NONE and users[book[0].oldest].last_ms + gap_ms <= t)
            or first_ms(memory) + window_ms + early_ms <= t
        ):
            _pass(state, keys, t, gap_ms, closings)
        at = probe(index, keys[r].user)
        s = index[at].slot if index[at].used else slot_of(state, chains, keys[r].user)
        if users[s].size >= max_samples or (users[s].size > 0 and t - users[s].first_ms >= max_age_ms):
            _close(state, keys, s, t + 1, 1, t + 1, closings)
        keys[r].ripe_ms = t
        if keys[r].kind == IMPRESSION:
            if not corrects:
                keys[r].ripe_ms = t + window_ms + early_ms
            expect(joining[0], joining[1], keys, items, r)
        _see(s, rows, r, lore)
        _join(users, book, keys, s, r, gap_ms)
        if book[0].num_samples + num_remembered(memory) > max_held:
            _make_way(state, keys, t, max_held, closings)
    _act(state, rows, lore, pending, watermark_ms, gap_ms, closings)
    _pass(state, keys, watermark_ms, gap_ms, closings)


@nb.njit(cache=True, nogil=True)
def _num_ripe(keys: Any, r: Any, size: Any, watermark_ms: Any) -> Any:
    """How many rows from the first one on are ripe; later ones wait behind one that is not, to keep their order."""
    num = 0
    while num < size and keys[r].ripe_ms <= watermark_ms:
        r = keys[r].next
        num += 1
    return num


@nb.njit(cache=True, nogil=True)
def _send_part(state: Any, keys: Any, part: Any, s: Any, num: Any, watermark_ms: Any, closings: Any) -> None:
    """The first `num` rows of `part`, which is a user or a waiting closing, leave; it goes on with the rest."""
    users, book = state[1], state[2]
    closing = closings[book[0].num_closings]
    closing.close_ms = closing.ready_ms = watermark_ms
    closing.user, closing.session_id, closing.slot, closing.cut = users[s].user, part.session_id, s, 1
    closing.first_ms, closing.first_id = part.first_ms, keys[part.head].id
    closing.head, closing.size = part.head, num
    for _ in range(num):
        part.head = keys[part.head].next
    part.size -= num
    if part.size > 0:
        part.first_ms = keys[part.head].time
    _send(state, keys, closings)


@nb.njit(cache=True, nogil=True)
def send_ripe(keys: Any, state: Any, watermark_ms: Any, closings: Any) -> None:
    """Ripe samples leave, of open sessions and of those that wait."""
    users, book, room = state[1], state[2], state[3]
    s = book[0].oldest
    while s != NONE:
        newer = users[s].newer
        num = _num_ripe(keys, users[s].head, users[s].size, watermark_ms)
        if num > 0:
            _send_part(state, keys, users[s], s, num, watermark_ms, closings)
            if users[s].size == 0:
                _unlink(users, book, s)
        s = newer
    for place in range(len(room[0])):
        waiting = room[0][place]
        num = _num_ripe(keys, waiting.head, waiting.size, watermark_ms)
        if num > 0:
            # All of them are ripe only when the closing is ready, and then it has left: some rows stay.
            _send_part(state, keys, waiting, waiting.slot, num, watermark_ms, closings)
            waiting.first_id = keys[waiting.head].id
            requeue(room, place)


@nb.njit(cache=True, nogil=True)
def erase(erased: Any, state: Any, lore: Any) -> None:
    """Forget the sessions and histories of these users."""
    index, users, book, room = state[0], state[1], state[2], state[3]
    entries, free, num_free, chains, _last = lore
    for user in erased:
        at = probe(index, user)
        if index[at].used == 0:
            continue
        s = index[at].slot
        if users[s].size > 0:
            book[0].num_samples -= users[s].size
            users[s].size = 0
            _unlink(users, book, s)
        while users[s].waiting_head != NONE:
            book[0].num_samples -= room[0][users[s].waiting_head].size
            take_out(room, users, users[s].waiting_head)
        num_free[0] = history.forget(entries, free, num_free[0], chains, s)
        users[s].last_ms = MIN_MS
        users[s].remembered_head = users[s].remembered_tail = NONE


@nb.njit(cache=True, nogil=True)
def walk(heads: Any, sizes: Any, keys: Any, rows: Any) -> None:
    """Write down the rows of closings, one closing after the other."""
    at = 0
    for c in range(len(heads)):
        r = heads[c]
        for _ in range(sizes[c]):
            rows[at] = r
            at += 1
            r = keys[r].next
