"""A dead letter says where it came from and what is wrong with it."""

from __future__ import annotations

from streams.errors import Reason
from streams.events.record import Rejected
from streams.kafka.dead_letter import KEPT_BYTES, dead_letter, from_line
from tests.streams.events.records import Rec


def rejected(record: Rec) -> Rejected:
    return Rejected(partition=3, offset=17, reason=Reason.WRONG_TYPE, detail="field x: no", record=record)


def test_a_record_keeps_its_bytes_and_gets_its_position_and_reason() -> None:
    letter = dead_letter(rejected(Rec(value=b"{", key=b"42")), now_ms=5)
    assert (letter.key, letter.value) == (b"42", b"{")
    assert dict(letter.headers) == {
        "recd-source": b"interactions",
        "recd-source-partition": b"3",
        "recd-source-offset": b"17",
        "recd-reason": b"wrong_type",
        "recd-detail": b"field x: no",
        "recd-rejected-ms": b"5",
    }


def test_without_a_clock_a_letter_is_a_function_of_the_record() -> None:
    assert "recd-rejected-ms" not in dict(dead_letter(rejected(Rec(value=b"{"))).headers)


def test_a_rejected_tombstone_keeps_having_no_value() -> None:
    assert dead_letter(rejected(Rec(value=None))).value is None


def test_a_very_large_value_is_cut_and_says_so() -> None:
    letter = from_line("a.csv", 7, b"x" * (2 * KEPT_BYTES), Reason.TOO_LARGE, "y" * 10_000, 5)
    headers = dict(letter.headers)
    assert letter.value == b"x" * KEPT_BYTES
    assert headers["recd-cut-from-bytes"] == str(2 * KEPT_BYTES).encode()
    assert headers["recd-source-line"] == b"7"
    assert len(headers["recd-detail"]) == 500
