"""Where a step uses each row: all of its occurrences together, in the order of the bags."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streams.ikjt.jagged import offsets_of
from trainer.row_uses import row_uses

BAGS = st.lists(st.lists(st.integers(0, 40) | st.integers(2**31, 2**31 + 3), max_size=5), max_size=12)


@given(bags=BAGS)
def test_every_occurrence_is_listed_at_its_row_in_the_order_of_the_bags(bags: list[list[int]]) -> None:
    flat = [row for bag in bags for row in bag]
    uses = row_uses(np.asarray(flat, np.int64), offsets_of(np.asarray([len(bag) for bag in bags], np.int64)))
    expected = {row: [n for n, bag in enumerate(bags) for each in bag if each == row] for row in sorted(set(flat))}
    found = {
        int(row): uses.bag_V[uses.starts_X1[x] : uses.starts_X1[x + 1]].tolist() for x, row in enumerate(uses.rows_X)
    }
    assert found == expected
    assert list(found) == list(expected)
    assert uses.num_rows == len(expected)
