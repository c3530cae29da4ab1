"""Dead letters are read back with where they came from, why, and how they begin."""

from __future__ import annotations

from dataclasses import replace

import pytest

from infra.commands.dead_letters import show_letters
from streams.errors import Reason
from streams.events.record import Rejected
from streams.kafka import client, topics
from streams.kafka.client import KafkaConfig
from streams.kafka.dead_letter import KEPT_BYTES, DeadLetter, dead_letter, from_line
from streams.kafka.letters import read_letters
from streams.kafka.topics import TopicsConfig
from tests.streams.events.records import Rec

pytestmark = pytest.mark.integration


def letters() -> list[DeadLetter]:
    record = Rec(value=b'{"user": \xff', key=b"42")
    routed = replace(
        record, headers=[("recd-origin", b"web"), ("recd-origin-partition", b"3"), ("recd-origin-offset", b"21")]
    )
    return [
        dead_letter(Rejected(partition=1, offset=17, reason=Reason.BROKEN_JSON, detail="truncated", record=record)),
        from_line("log.csv", 7, b"x" * (2 * KEPT_BYTES), Reason.TOO_LARGE, "field a:\nno", 5),
        from_line("log.csv", 9, b"1,2,,3", Reason.BROKEN_JSON, "not a number", 5),
        dead_letter(Rejected(partition=0, offset=4, reason=Reason.BROKEN_JSON, detail="odd", record=routed)),
    ]


def test_letters_say_where_they_came_from_why_and_how_they_begin(
    kafka: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config, names = KafkaConfig(bootstrap=kafka), TopicsConfig(interactions="letters", minibatches="letters-batches")
    assert list(read_letters(config, names.dead_letter)) == []
    topics.ensure(client.admin(config), names)
    producer = client.producer(config, client_id="letters")
    for place, letter in enumerate(letters()):
        producer.produce(
            names.dead_letter, letter.value, letter.key, place, headers=list(letter.headers), timestamp=1_000 + place
        )
    assert producer.flush(30) == 0
    first, cut, last, routed = read_letters(config, names.dead_letter)
    assert (first.source, first.source_partition, first.source_offset) == ("interactions", 1, 17)
    assert (first.reason, first.detail, first.head) == ("broken_json", "truncated", '{"user": \\xff')
    assert (cut.source_line, cut.size_bytes, len(cut.head)) == (7, 2 * KEPT_BYTES, 300)
    assert (last.source_line, last.source_partition, last.written_ms) == (9, None, 1_002)
    assert (first.origin, first.origin_offset, routed.origin, routed.origin_partition) == ("", None, "web", 3)

    show_letters([first, cut, last], names.dead_letter, 2, as_json=False)
    shown = capsys.readouterr().out.splitlines()
    assert shown[2] == "broken_json  log.csv line 9: not a number"
    assert shown[3] == "    6 bytes: 1,2,,3"
    show_letters([routed], names.dead_letter, 1, as_json=False)
    assert "interactions[0] offset 4, routed from web[3] offset 21: odd" in capsys.readouterr().out
    assert shown[-1] == "letters-dead-letter: 3 dead letters (2 broken_json, 1 too_large)"


def test_a_record_that_is_no_letter_of_ours_is_shown_all_the_same(kafka: str) -> None:
    config, names = KafkaConfig(bootstrap=kafka), TopicsConfig(interactions="foreign", minibatches="foreign-batches")
    topics.ensure(client.admin(config), names)
    producer = client.producer(config, client_id="letters")
    producer.produce(names.dead_letter, None, b"k", 0, headers=[("recd-source-offset", b"x")])
    assert producer.flush(30) == 0
    (letter,) = read_letters(config, names.dead_letter)
    assert (letter.reason, letter.source_offset, letter.size_bytes, letter.head) == ("unknown", None, 0, "")
