"""What a message says of how its labels came about: the rate of negatives and the stage of each sample.

Owns both sections. Each is absent where it would say what was true before it existed: a rate of 1, all samples
settled. A message without either has the bytes that it had then.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import zstandard

from streams.errors import WireError
from streams.minibatch import MiniBatch
from streams.stage import Stage
from streams.wire.layout import INT32, UINT64, Kind
from streams.wire.packing import pack
from streams.wire.sections import Column, Sections


def columns_of_labelling(batch: MiniBatch, compressor: zstandard.ZstdCompressor) -> Iterator[Column]:
    """None, one or both of the sections."""
    if batch.negative_rate != 1.0:
        bits = np.asarray([batch.negative_rate], np.float64).view(np.uint64)
        yield Column(Kind.NEGATIVE_RATE, bits, pack(bits, compressor))
    if not batch.all_settled:
        stages = batch.stages.astype(np.int32)
        yield Column(Kind.STAGE, stages, pack(stages, compressor))


def read_labelling(sections: Sections, num_samples: int) -> tuple[float, npt.NDArray[np.uint8] | None]:
    """Rate and stages, 1.0 and None where the message does not say. Raises WireError."""
    rate, stage = 1.0, None
    if sections.upcoming() == Kind.NEGATIVE_RATE:
        index = sections.take(Kind.NEGATIVE_RATE, UINT64)
        if sections.counts[index] != 1:
            raise WireError(f"{sections.words(index)} has {sections.counts[index]} values, it needs one")
        rate = float(sections.column(index).view(np.float64)[0])
        if not 0.0 < rate <= 1.0:
            raise WireError(f"a rate of negatives of {rate} does not exist")
    if sections.upcoming() == Kind.STAGE:
        index = sections.take(Kind.STAGE, INT32)
        if sections.counts[index] != num_samples:
            raise WireError(f"{sections.words(index)} has {sections.counts[index]} samples, the header {num_samples}")
        found = sections.column(index)
        if num_samples and (found.min() < 0 or found.max() > max(Stage)):
            raise WireError("a stage that does not exist; this recd knows 0 to 2: update it")
        stage = found.astype(np.uint8)
    return rate, stage
