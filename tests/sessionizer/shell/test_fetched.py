"""The messages of a fetched partition, through aiokafka's own parser."""

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition

from sessionizer.fetched import Fetched, MessagesOnly

READ_COMMITTED = 1


def fetched(num: int, start: int = 0) -> Fetched:
    """A partition as the broker sends it, through aiokafka's parser."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    for i in range(num):
        builder.append(i, 1_000 + i, b"k%d" % i, None if i == 1 else b"v%d" % i, [("h", b"%d" % i)])
    records = MemoryRecords(bytes(builder.build()))
    messages = MessagesOnly(TopicPartition("t", 3), records, [], start, None, None, True, READ_COMMITTED)
    return Fetched("t", 3, list(messages))


def test_messages_are_those_of_the_broker_in_order() -> None:
    found = [(m.offset, m.timestamp, m.key, m.value, list(m.headers)) for m in fetched(3)]

    assert found == [
        (0, 1_000, b"k0", b"v0", [("h", b"0")]),
        (1, 1_001, b"k1", None, [("h", b"1")]),
        (2, 1_002, b"k2", b"v2", [("h", b"2")]),
    ]


def test_what_lies_before_the_position_is_left_out() -> None:
    assert [m.offset for m in fetched(5, start=3)] == [3, 4]


def test_a_record_taken_by_its_place_says_where_it_is_from() -> None:
    last = fetched(3)[-1]

    assert (last.topic, last.partition, last.offset, last.value) == ("t", 3, 2, b"v2")


def test_a_part_is_records_again() -> None:
    rest = fetched(4)[2:]

    assert (len(rest), rest[0].offset, rest[0].partition) == (2, 2, 3)
