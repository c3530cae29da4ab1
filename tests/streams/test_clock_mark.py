"""What a clock mark is as bytes: read back as it was, and refused where it says too little."""

from __future__ import annotations

import msgspec
import pytest

from streams.clock_mark import WHOLE, ClockMark, MarkKind
from streams.inputs import Position


def test_a_shed_mark_comes_back_with_its_share_and_no_other_kind_has_one_in_its_bytes() -> None:
    shed = ClockMark.at(Position(5, 3), MarkKind.SHED, partition=1, two=True, share=WHOLE // 8)
    assert ClockMark.decode(shed.encode()) == shed
    assert (shed.shed_share, shed.after) == (8192, Position(5, 3))
    fresh = ClockMark.at(Position(5), MarkKind.FRESH, partition=1, two=False)
    assert fresh.shed_share == 0
    assert b"share" not in fresh.encode()


@pytest.mark.parametrize("share", ["", ',"share":-1', ',"share":65537'])
def test_a_shed_mark_without_a_share_that_can_be_is_none(share: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"a shed mark needs a share in 0\.\.65536"):
        ClockMark.decode(f'{{"partition":0,"after_offset":1,"kind":"shed"{share}}}'.encode())
