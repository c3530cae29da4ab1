"""Set-up: only the standard library before there is a `.venv`, stamps that mean something, remedies by name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from infra.clock import Clock
from infra.services.errors import MissingProgramError
from infra.setup import ROOT, Setup, SetupError, digest, write_stamp

POM = Path("infra/kafka/pom.xml")


def checkout(folder: Path) -> Path:
    """As much of a checkout as the Kafka half of set-up looks at."""
    (folder / POM).parent.mkdir(parents=True)
    (folder / POM).write_bytes((ROOT / POM).read_bytes())
    return folder


def with_java_only(folder: Path, tmp_path: Path) -> Setup:
    tools = tmp_path / "bin"
    tools.mkdir()
    java = tools / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.15\"' >&2\n")
    java.chmod(0o755)
    return Setup(folder, {"PATH": str(tools)})


def test_it_runs_on_a_python_without_any_package() -> None:
    without_packages = [sys.executable, "-S", "-m", "infra.setup", "--help"]
    ran = subprocess.run(without_packages, cwd=ROOT, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_without_a_jdk_it_names_the_packages_to_install(tmp_path: Path) -> None:
    with pytest.raises(MissingProgramError, match="apt-get install openjdk-17-jdk-headless"):
        Setup(checkout(tmp_path), {"PATH": ""}).copy_kafka_jars()


def test_without_maven_it_names_the_package_to_install(tmp_path: Path) -> None:
    setup = with_java_only(checkout(tmp_path / "checkout"), tmp_path)
    with pytest.raises(MissingProgramError, match="no `mvn` on the PATH") as caught:
        setup.copy_kafka_jars()
    assert "apt-get install openjdk-17-jdk-headless maven" in caught.value.remedy


def test_jars_of_this_pom_are_not_fetched_again_and_those_of_another_are(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "checkout")
    setup = with_java_only(folder, tmp_path)
    (folder / ".kafka").mkdir()
    write_stamp(folder / ".kafka" / "stamp.json", {"pom": digest(folder / POM)})
    setup.copy_kafka_jars()
    (folder / POM).write_text("<project/>")
    with pytest.raises(MissingProgramError, match="no `mvn`"):
        setup.copy_kafka_jars()


def test_a_maven_that_fails_leaves_the_old_jars_and_no_stamp_of_the_new(tmp_path: Path) -> None:
    folder = checkout(tmp_path / "checkout")
    setup = with_java_only(folder, tmp_path)
    maven = tmp_path / "bin" / "mvn"
    maven.write_text("#!/bin/sh\nexit 7\n")
    maven.chmod(0o755)
    with pytest.raises(SetupError, match="failed with code 7"):
        setup.copy_kafka_jars()
    assert not (folder / ".kafka").exists()


def test_a_second_set_up_of_this_checkout_takes_less_than_two_seconds() -> None:
    command = [sys.executable, "-m", "infra.setup", "--require-kafka"]
    clock = Clock()

    def timed_ms() -> int:
        begun_ms = clock.monotonic_ms()
        subprocess.run(command, cwd=ROOT, check=True)
        return clock.monotonic_ms() - begun_ms

    timed_ms()
    # Once is enough: on a busy machine some take longer.
    assert any(timed_ms() < 2_000 for _ in range(10))


def test_the_stamp_of_this_checkout_names_the_lock_file_it_was_made_from() -> None:
    stamp = json.loads((ROOT / ".venv" / "recd-setup.json").read_text())
    assert stamp["lock"] == digest(ROOT / "uv.lock")
    assert Path(sys.prefix).samefile(ROOT / ".venv")
