"""A worker that cannot even begin leaves, and says why."""

from __future__ import annotations

from pathlib import Path

from tests.sessionizer.shell.town import town


def test_a_worker_that_the_group_refuses_leaves_in_words(kafka: str, tmp_path: Path) -> None:
    with town(kafka, "worker-refused", tmp_path) as place:
        worker = place.start(session_timeout_ms=1_000)
        worker.communicate(timeout=100)
        assert worker.returncode == 1
        assert "Kafka refuses this worker as a member of group worker-refused-batches-app" in place.logs()
