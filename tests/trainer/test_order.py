"""Which mini-batches a step takes: the merge, its patience, whole mini-batches up to the step's size."""

from __future__ import annotations

from collections.abc import Sequence

from tests.trainer.lineage_kit import mini_batch
from trainer.buffer import Buffer
from trainer.intake import Item
from trainer.order import Order


class Shelf:
    """A buffer with a clock that a test moves."""

    def __init__(self, partitions: int, max_batches: int = 100) -> None:
        self.now_ms = 0
        self.buffer = Buffer(range(partitions), 10**9, max_batches, lambda: self.now_ms)

    def put(self, partition: int, *sequences: int, samples: int = 6) -> None:
        for sequence in sequences:
            batch = mini_batch(partition, sequence, samples)
            self.buffer.put(Item(partition=partition, offset=sequence, num_bytes=10, batch=batch))

    def step(self, order: Order) -> list[tuple[int, int]]:
        """One step's mini-batches by (partition, sequence); none if it must wait."""
        taken: Sequence[Item] = []
        while (partition := order.next_partition(self.buffer.view(0), self.now_ms)) is not None:
            taken = [*taken, self.buffer.take(partition)]
            order.took(taken[-1].entry())
        if taken:
            order.close_step()
        return [(item.partition, item.sequence) for item in taken]


def test_the_smallest_watermark_trains_first() -> None:
    shelf, order = Shelf(2), Order([], step_samples=6, wait_ms=1000)
    shelf.put(1, 0, 1)
    shelf.put(0, 0, 1)
    assert [shelf.step(order) for _ in range(3)] == [[(0, 0)], [(1, 0)], [(0, 1)]]


def test_a_step_takes_whole_mini_batches_up_to_its_size() -> None:
    shelf, order = Shelf(1), Order([], step_samples=13, wait_ms=0)
    shelf.put(0, 0, 1, 2)
    shelf.put(0, 3, samples=20)
    assert [shelf.step(order) for _ in range(3)] == [[(0, 0), (0, 1)], [(0, 2)], [(0, 3)]]


def test_a_silent_partition_holds_the_others_back_only_so_long() -> None:
    shelf, order = Shelf(2), Order([], step_samples=6, wait_ms=50)
    shelf.put(1, 0)
    assert shelf.step(order) == []
    shelf.now_ms = 49
    assert shelf.step(order) == []
    shelf.now_ms = 50
    assert shelf.step(order) == [(1, 0)]


def test_an_ended_partition_holds_nobody_back() -> None:
    shelf, order = Shelf(2), Order([], step_samples=6, wait_ms=50)
    shelf.put(1, 0)
    shelf.buffer.end(0)
    assert shelf.step(order) == [(1, 0)]


def test_a_full_partition_is_never_held_back() -> None:
    shelf, order = Shelf(2, max_batches=4), Order([], step_samples=6, wait_ms=10**6)
    shelf.put(1, 0, 1)
    assert shelf.buffer.is_full(1)
    assert not shelf.buffer.is_full(0)
    assert shelf.step(order) == [(1, 0)]
    assert shelf.buffer.is_low(1)


def test_bytes_bound_a_partition_too() -> None:
    shelf = Shelf(1)
    buffer = Buffer([0], 100, 1000, lambda: 0)
    for sequence in range(9):
        buffer.put(Item(partition=0, offset=sequence, num_bytes=11, batch=mini_batch(0, sequence)))
    assert not buffer.is_full(0)
    buffer.put(Item(partition=0, offset=9, num_bytes=11, batch=mini_batch(0, 9)))
    assert buffer.is_full(0)
    assert (buffer.num_batches, buffer.num_bytes, shelf.buffer.num_bytes) == (10, 110, 0)
