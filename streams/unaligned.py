"""64 bits from any byte of a buffer: one load where numpy would need an aligned view.

Owns this one instruction. A reader of bits needs it: the bits of a value begin anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]  # it has no stubs
from numba.core import types
from numba.extending import intrinsic

from streams.ikjt.kernels import compiled

U8 = npt.NDArray[np.uint8]

PADDING: Final = 528
"""Bytes behind the last one that may be read; what they hold is never used."""
ANY_BITS: Final = 57
"""8 bytes hold so many bits, wherever in a byte they begin."""

if TYPE_CHECKING:

    def load_u64(buffer: U8, position: np.uint64) -> np.uint64:
        """The 8 bytes from `position` on as a little-endian number. Checks nothing; only for compiled code."""
else:

    @intrinsic
    def load_u64(_context: object, buffer: object, position: object) -> object:
        """The 8 bytes from `position` on as a little-endian number. Checks nothing; only for compiled code."""

        def generate(context: object, builder: object, signature: object, arguments: object) -> object:
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            first = builder.gep(array.data, [arguments[1]])
            return builder.load(builder.bitcast(first, ir.IntType(64).as_pointer()), align=1)

        return types.uint64(buffer, position), generate


@compiled
def load_u32(buffer: U8, position: int) -> int:
    """The 4 bytes from `position` on as a little-endian number, signed as compiled code counts."""
    number = load_u64(buffer, np.uint64(position)) & np.uint64(0xFFFFFFFF)
    return np.int64(number)  # type: ignore[return-value]  # what int() makes of it would stay unsigned


@compiled
def low_bits(width: int) -> np.uint64:
    """A mask of the lowest bits, 0 to 64."""
    return np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - width) if width else np.uint64(0)


@compiled
def get_bits(buffer: U8, at: np.uint64, width: int) -> np.uint64:
    """`width` bits, 0 to 64, from bit `at` on, lowest bit first. The buffer is padded."""
    byte, shift = at >> np.uint64(3), at & np.uint64(7)
    value = load_u64(buffer, byte) >> shift
    if width > ANY_BITS:
        value |= (np.uint64(buffer[np.int64(byte) + 8]) << np.uint64(1)) << (np.uint64(63) - shift)
    masked: np.uint64 = value & low_bits(width)
    return masked


def padded(buffer: U8) -> U8:
    """A copy that may be read beyond its end."""
    return np.concatenate([buffer, np.zeros(PADDING, np.uint8)])
