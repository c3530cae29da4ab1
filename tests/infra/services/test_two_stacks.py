"""Two directories at once never meet, and a second command in one directory waits for the first."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from infra.services.stack import Stack
from tests.infra.services.topic_io import create_topic, produce, read_all

pytestmark = pytest.mark.integration

UP = "import sys; from infra.services.stack import Stack; print(Stack(sys.argv[1]).up(kind='kafka').kafka)"
START_UP = [sys.executable, "-c", UP]


def test_two_directories_and_two_commands_in_one_of_them(tmp_path: Path) -> None:
    directories = [tmp_path / "one", tmp_path / "one", tmp_path / "two"]
    commands = [subprocess.Popen([*START_UP, str(one)], stdout=subprocess.PIPE, text=True) for one in directories]
    try:
        printed = [command.communicate(timeout=100)[0].strip() for command in commands]
        assert [command.returncode for command in commands] == [0, 0, 0]
        first, again, second = printed
        assert first == again
        assert first != second
        ports = [json.loads((one / "stack.json").read_text()) for one in directories[1:]]
        assert ports[0]["redis_port"] != ports[1]["redis_port"]
        for address, numbers in ((first, range(5)), (second, range(5, 10))):
            create_topic(address, "same-name")
            produce(address, "same-name", numbers)
        assert [number for number, _ in read_all(first, "same-name")] == list(range(5))
        assert [number for number, _ in read_all(second, "same-name")] == list(range(5, 10))
    finally:
        for one in directories[1:]:
            Stack(one).down()
    assert not Stack(tmp_path / "one").status().up
