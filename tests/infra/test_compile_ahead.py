"""What a worker runs is compiled before the first one starts."""

from __future__ import annotations

import subprocess
import sys

import msgspec

from infra import compile_ahead
from streams.events.decode import EventDecoder
from streams.events.formats.arrow import ArrowTables

_AFTERWARDS = """
from numba.core import event

import msgspec

from infra import compile_ahead

class Told(event.Listener):
    def on_start(self, told):
        print(told.data["dispatcher"].py_func.__qualname__)

    def on_end(self, told):
        pass

compile_ahead.read_json()
compile_ahead.make_batches()
event.register("numba:compile", Told())
import tests.fault.audit_warm
"""
"""What is still compiled in another world: other labels, histories and features, with everything that can happen."""


def test_both_processes_see_the_same_events() -> None:
    schema = compile_ahead.SCHEMA
    of_json = EventDecoder(schema).decode(compile_ahead.records(msgspec.json.encode))
    of_arrow = EventDecoder(schema, ArrowTables(schema)).decode(compile_ahead.records(compile_ahead.arrow_encode))
    assert [one.offset for one in of_json.rejected] == [one.offset for one in of_arrow.rejected] == [120]
    assert of_json.events.offset.tolist() == of_arrow.events.offset.tolist()
    assert of_json.events.kind.tolist() == of_arrow.events.kind.tolist()


def test_samples_come_back_from_the_wire_under_every_policy() -> None:
    assert compile_ahead.make_batches() > compile_ahead.EVENTS


def test_a_worker_has_nothing_left_to_compile() -> None:
    ran = subprocess.run([sys.executable, "-c", _AFTERWARDS], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []
