"""The picture of advice."""

from __future__ import annotations

import struct

from infra.report.advice import png
from streams.advisor import advise
from streams.advisor.advise import Question
from tests.streams.advisor.streams import Drawn, drawn

ADVICE = advise(drawn(Drawn(redrawn={"user": 1.0, "taste": 0.8}, shifted={"seen": 0.5})), Question(batch_samples=64))


def test_it_is_a_png_of_a_legible_size_and_equal_for_equal_advice() -> None:
    data = png(ADVICE)
    width, height = struct.unpack(">II", data[16:24])
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert width >= 1400
    assert height >= 900
    assert png(ADVICE) == data


def test_a_stream_on_which_nothing_repeats_has_a_picture_too() -> None:
    assert png(advise(drawn(Drawn(sessions=1, redrawn={"ad": 0.0})), Question(batch_samples=64)))
