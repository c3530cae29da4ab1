"""Checkpoints on the disk: complete or not there, split by rows, pruned, and refused in words when damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from infra.clock import Clock
from streams.errors import ConfigError, InvariantError
from streams.metrics import Silent
from trainer.account import Account
from trainer.checkpoint import store
from trainer.checkpoint.config import CheckpointConfig
from trainer.checkpoint.load import check_fits, newest, open_checkpoint, read_manifest
from trainer.checkpoint.manifest import NAME, Progress
from trainer.checkpoint.plan import plan
from trainer.checkpoint.saver import Saver
from trainer.checkpoint.stage import stage
from trainer.checkpoint.touched import Touched
from trainer.config import TableConfig
from trainer.crash import never
from trainer.lease import StaleLeaseError
from trainer.ledger import Position, TopicIdentity

STATE: dict[str, Tensor] = {
    "table": torch.arange(40, dtype=torch.float32).reshape(10, 4),
    "scalar": torch.tensor(7),
    "empty": torch.empty((0, 4)),
    "sliced": torch.arange(20).reshape(5, 4)[:, 1:3],
}


def progress(step: int) -> Progress:
    return Progress(
        step=step,
        epoch=1,
        created_ms=1_700_000_000_000,
        watermark_ms=5,
        topic=TopicIdentity(name="minibatches", topic_id="", partitions=1),
        positions={0: Position(next_offset=step + 1, next_sequence=step)},
        account=Account(samples=step),
        seed=3,
        schema_fingerprint="ab",
        config={"model": {"dim": 4}},
    )


def write(directory: Path, step: int, shard_bytes: int = 10**6, check: Callable[[], None] = lambda: None) -> Path:
    store.write(directory, progress(step), stage(STATE), shard_bytes, check, never)
    return directory / store.name_of(step)


@pytest.mark.parametrize("shard_bytes", [1, 16, 33, 100, 10**6])
def test_what_is_written_is_read_bit_for_bit_however_it_is_split(tmp_path: Path, shard_bytes: int) -> None:
    path = write(tmp_path, 3, shard_bytes)
    checkpoint = open_checkpoint(path)
    assert checkpoint.manifest.progress == progress(3)
    for name, tensor in checkpoint.tensors().items():
        assert torch.equal(tensor, STATE[name])
        assert tensor.dtype == STATE[name].dtype


def test_a_plan_covers_every_row_once_and_keeps_files_small() -> None:
    tensors = plan({"a": torch.zeros(100, 4), "b": torch.zeros(3, 4)}, shard_bytes=160)
    assert [(piece.start, piece.stop) for piece in tensors["a"].pieces] == [(n, n + 10) for n in range(0, 100, 10)]
    assert len({piece.file for stored in tensors.values() for piece in stored.pieces}) == 11


def test_the_manifest_is_readable_text(tmp_path: Path) -> None:
    text = json.loads((write(tmp_path, 3) / NAME).read_text())
    assert text["version"] == 1
    assert text["progress"]["positions"] == {"0": {"next_offset": 4, "next_sequence": 3}}
    assert text["files"][0]["sha256"]


@pytest.mark.parametrize("victim", ["tensors-00000.safetensors", NAME])
def test_a_truncated_or_missing_file_is_no_checkpoint_and_the_one_before_is_used(tmp_path: Path, victim: str) -> None:
    write(tmp_path, 1)
    path = write(tmp_path, 2) / victim
    whole = path.read_bytes()
    for size in (0, 1, len(whole) // 2, len(whole) - 2):
        path.write_bytes(whole[:size])
        found = newest(tmp_path)
        assert found.checkpoint is not None
        assert found.checkpoint.manifest.progress.step == 1
        assert [each.name for each in found.damaged] == ["step-000000000002"]
    path.unlink()
    assert newest(tmp_path).damaged == (path.parent,)


def test_a_changed_byte_is_found_and_the_file_named(tmp_path: Path) -> None:
    file = write(tmp_path, 1) / "tensors-00000.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(InvariantError, match=r"tensors-00000.safetensors is damaged"):
        open_checkpoint(file.parent)


def test_an_older_lease_is_refused_before_the_manifest(tmp_path: Path) -> None:
    def taken_over() -> None:
        raise StaleLeaseError("epoch 2 is current")

    with pytest.raises(StaleLeaseError):
        write(tmp_path, 1, check=taken_over)
    assert newest(tmp_path).checkpoint is None


def test_only_the_newest_are_kept_and_left_overs_are_removed(tmp_path: Path) -> None:
    for step in range(1, 6):
        write(tmp_path, step)
    (tmp_path / ".partial-000000000009-1").mkdir()
    store.prune(tmp_path, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000000004", "step-000000000005"]


def test_a_damaged_one_is_set_aside_and_its_step_can_be_saved_again(tmp_path: Path) -> None:
    write(tmp_path, 1)
    store.set_aside(write(tmp_path, 2))
    assert [store.step_of(path) for path in store.found(tmp_path)] == [1]
    write(tmp_path, 2)
    assert [store.step_of(path) for path in store.found(tmp_path)] == [2, 1]


def test_every_difference_of_schema_and_configuration_is_named(tmp_path: Path) -> None:
    manifest = read_manifest(write(tmp_path, 1))
    check_fits(manifest, "ab", {"model": {"dim": 4}})
    with pytest.raises(
        ConfigError, match=r"model.dim: was 4, is 8; model.new: was None, is 1; schema .* was ab, is cd"
    ):
        check_fits(manifest, "cd", {"model": {"dim": 8, "new": 1}})


class ManualClock(Clock):
    """Moves when told."""

    time_ms = 0

    def now_ms(self) -> int:
        return self.time_ms


def make_saver(directory: Path, clock: Clock, *, background: bool = False) -> Saver:
    settings = CheckpointConfig(every_steps=10, every_ms=500, background=background)
    return Saver(settings, directory, 0, lambda: None, clock, Silent(), never)


def test_a_checkpoint_is_due_by_steps_and_by_time_but_never_without_a_step(tmp_path: Path) -> None:
    clock = ManualClock()
    saver = make_saver(tmp_path, clock)
    assert [saver.is_due(step) for step in (0, 9, 10)] == [False, False, True]
    clock.time_ms = 500
    assert [saver.is_due(step) for step in (0, 1)] == [False, True]


def test_a_background_save_holds_the_values_of_its_step(tmp_path: Path) -> None:
    saver = make_saver(tmp_path, ManualClock(), background=True)
    live = {"table": torch.zeros(1000, 8)}
    saver.begin(progress(1), live)
    live["table"] += 1
    assert not saver.is_due(100), "one is in flight"
    done = saver.finish()
    assert done == progress(1)
    found = newest(tmp_path).checkpoint
    assert found is not None
    assert found.tensors()["table"].sum() == 0


def test_an_error_of_the_writer_surfaces(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    saver = make_saver(tmp_path / "file", ManualClock(), background=True)
    saver.begin(progress(1), STATE)
    with pytest.raises(OSError, match="file"):
        saver.finish()


def test_large_tensors_are_staged_in_files_where_there_is_a_folder_for_them(tmp_path: Path) -> None:
    state = {"large": torch.randn(300_000), "small": torch.randn(7), "strided": torch.randn(300_000, 2)[:, 0]}
    staged = stage(state, tmp_path)
    before = {name: tensor.clone() for name, tensor in state.items()}
    state["large"].zero_()
    assert all(torch.equal(staged[name], before[name]) and staged[name].is_contiguous() for name in state)
    assert not list(tmp_path.iterdir())


def test_only_touched_rows_are_copied_into_the_copy_that_stays(tmp_path: Path) -> None:
    saver = make_saver(tmp_path, ManualClock(), background=True)
    live = {"table": torch.zeros(6, 2), "dense": torch.zeros(3)}
    saver.keep_copy(live)
    for step, rows in ((1, [0, 4]), (2, [1])):
        # Row 5 changes although nobody says so: that it stays behind shows that it was not copied.
        live["table"][[*rows, 5]] += 1
        live["dense"] += 1
        saver.begin(progress(step), live, {"table": np.array(rows)})
        saver.finish()
    found = newest(tmp_path).checkpoint
    assert found is not None
    assert found.tensors()["table"][:, 0].tolist() == [1, 1, 0, 0, 1, 0]
    assert found.tensors()["dense"].tolist() == [2, 2, 2]


def test_rows_are_touched_until_they_are_taken() -> None:
    touched = Touched({"a": TableConfig(rows=4), "b": TableConfig(rows=3)})
    touched.note(np.array([3, 4, 6]))
    touched.note(np.array([0, 3]))
    assert {name: rows.tolist() for name, rows in touched.take().items()} == {"a": [0, 3], "b": [0, 2]}
    assert {name: rows.tolist() for name, rows in touched.take().items()} == {"a": [], "b": []}
