"""What is missing is named with its remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.services.errors import MissingProgramError
from infra.services.toolchain import Toolchain

HERE = Toolchain.of_process()


def program(folder: Path, name: str, says: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    path.chmod(0o755)
    return path


def test_everything_is_here() -> None:
    assert HERE.kafka().java.exists()
    assert HERE.redis().exists()
    assert HERE.memory_broker().exists()


def test_an_empty_path_names_the_jdk_to_install() -> None:
    nothing = Toolchain.of_process({"PATH": ""})
    with pytest.raises(MissingProgramError, match="no `java` on the PATH and JAVA_HOME is not set") as caught:
        nothing.kafka()
    assert "apt-get install openjdk-17-jdk-headless" in caught.value.remedy


def test_an_old_java_is_named_with_its_version(tmp_path: Path) -> None:
    java = program(tmp_path, "java", 'openjdk version "11.0.22" 2024-01-16')
    with pytest.raises(MissingProgramError, match=f"{java} is Java 11, and Kafka 4 needs 17"):
        Toolchain(str(tmp_path), "", HERE.jars).kafka()


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    program(tmp_path / "path", "java", 'openjdk version "11.0.22"')
    newer = program(tmp_path / "home" / "bin", "java", 'openjdk version "21.0.3"')
    assert Toolchain(str(tmp_path / "path"), str(tmp_path / "home"), HERE.jars).kafka().java == newer


def test_missing_jars_name_make_setup(tmp_path: Path) -> None:
    with pytest.raises(MissingProgramError, match="run `make setup`, which needs Maven"):
        Toolchain(HERE.path, HERE.java_home, tmp_path).kafka()


def test_a_redis_that_is_too_old_gives_way_to_the_one_in_the_wheel(tmp_path: Path) -> None:
    program(tmp_path, "redis-server", "Redis server v=6.0.16 sha=00000000:0 bits=64")
    assert Toolchain(str(tmp_path), "", HERE.jars).redis().name == "valkey-server"
    newer = program(tmp_path, "redis-server", "Redis server v=7.0.15 sha=00000000:0 bits=64")
    assert Toolchain(str(tmp_path), "", HERE.jars).redis() == newer
