"""Interactions written by transactions: markers and aborted records take offsets, and nobody ever reads them."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

from tests.sessionizer.shell.town import town
from tests.sessionizer.shell.world import events, identities, records, reference


def test_an_end_mark_behind_offsets_that_nobody_can_read_is_reached(kafka: str, tmp_path: Path) -> None:
    some, more, dropped = events(300, seed=1), events(250, seed=2), events(60, seed=3)
    with town(kafka, "transactions-end", tmp_path, partitions=4) as place:
        # 0: committed, aborted, committed. 1: aborted records are the last ones. 2: nothing else. 3: empty.
        place.produce_at_once(0, some)
        place.produce_at_once(0, dropped, commit=False)
        place.produce_at_once(0, more)
        place.produce_at_once(1, some)
        place.produce_at_once(1, dropped, commit=False)
        place.produce_at_once(2, dropped, commit=False)
        after = [place.end_of(partition) for partition in range(4)]
        assert after == [301 + 61 + 251, 301 + 61, 61, 0]
        for partition, offset in enumerate(after):
            place.end(partition, offset)
        summary = place.summary(place.start())
        behind = [replace(one, offset=one.offset + 301 + 61) for one in records(more, 0)]
        readable = [records(some, 0) + behind, records(some, 1), [], []]
        for partition, found in enumerate(readable):
            assert identities(place.batches(partition)) == identities(reference(found, partition)[0])
            assert place.ends(partition) == 1
        assert summary["ended"]
        assert summary["held"] == 0
        # What was moved past stays moved past: the second worker finds everything done.
        assert place.summary(place.start()) == summary
        assert [place.ends(partition) for partition in range(4)] == [1, 1, 1, 1]


def test_an_end_mark_before_the_marker_of_its_transaction_is_still_the_end(kafka: str, tmp_path: Path) -> None:
    some = events(300, seed=4)
    with town(kafka, "transactions-inside", tmp_path) as place:
        place.produce_at_once(0, some)
        place.end(0, len(some))
        summary = place.summary(place.start())
        assert summary["ended"]
        assert place.ends(0) == 1


def test_a_worker_that_waits_at_the_end_of_a_transaction_sees_the_next_one_and_its_end(
    kafka: str, tmp_path: Path
) -> None:
    some, more = events(300, seed=5), events(200, seed=6)
    with town(kafka, "transactions-live", tmp_path) as place:
        place.produce_at_once(0, some)
        worker = place.start(exit_at_end=False)
        place.wait_for_output(1)
        place.produce_at_once(0, more[:50], commit=False)
        place.produce_at_once(0, more)
        place.end(0, place.end_of(0))
        while not place.ends(0):
            assert worker.poll() is None, place.logs()
            place.clock.sleep(50)
        worker.send_signal(signal.SIGTERM)
        summary = place.summary(worker)
        behind = [replace(one, offset=one.offset + 301 + 51) for one in records(more, 0)]
        assert identities(place.batches(0)) == identities(reference(records(some) + behind)[0])
        assert summary["held"] == 0
