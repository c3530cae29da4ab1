"""`make setup`: from a fresh clone to a working `.venv` and Kafka's jars; a second call finds everything in place.

Owns: finding or installing uv, `uv sync` from the lock file, and Maven's copy of the jars named in kafka/pom.xml.
Never: needs root, or anything but the standard library: it runs before there is a `.venv`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.clock import Clock, Deadline
from infra.services import lock
from infra.services.errors import MissingProgramError, ServiceError
from infra.services.toolchain import Toolchain

ROOT = Path(__file__).resolve().parents[1]
WAIT_FOR_OTHER_SETUP_MS = 20 * 60_000
MIN_UV = (0, 6)
UV_REQUIREMENT = "uv>=0.6"
COMPILED = ("streams", "sessionizer", "state")
MAVEN_REMEDY = "`apt-get install openjdk-17-jdk-headless maven`"


class SetupError(ServiceError):
    """Set-up cannot go on."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The set-up of one checkout on one machine."""

    root: Path
    environ: Mapping[str, str]

    def run(self, *, require_kafka: bool) -> None:
        """Do what is not done yet. Without `require_kafka` a missing JDK or Maven is one line of warning."""
        with lock.held(self.root / ".tools" / "setup.lock", Deadline.after(Clock(), WAIT_FOR_OTHER_SETUP_MS)):
            self.sync_venv()
            self.compile_kernels()
            try:
                self.copy_kafka_jars()
            except MissingProgramError as missing:
                if require_kafka:
                    raise
                say(f"warning: {missing.what}: `recd demo` runs on an in-memory stand-in. Remedy: {missing.remedy}")

    def sync_venv(self) -> None:
        """Make `.venv` what the lock file says, unless its stamp says that it is."""
        stamp = self.root / ".venv" / "recd-setup.json"
        extras = ("stream", "local", "gpu" if self.has_nvidia_driver() else "cpu")
        wanted = {
            "lock": digest(self.root / "uv.lock"),
            "project": digest(self.root / "pyproject.toml"),
            "extras": list(extras),
            "python": sys.version.split()[0],
        }
        if read_stamp(stamp) == wanted and (self.root / ".venv" / "bin" / "python").exists():
            return
        say(f"making .venv ({', '.join(extras)}): minutes the first time, mostly PyTorch")
        flags = [word for extra in extras for word in ("--extra", extra)]
        # Compiling once costs half a minute; not compiled, torch costs every process ten seconds where Python may not
        # write beside its packages.
        command = [str(self.uv()), "sync", "--frozen", "--compile-bytecode", "--group", "dev"]
        command += ["--python", sys.executable, *flags]
        # An activated environment of somebody else's is not ours to fill.
        environ = {name: value for name, value in self.environ.items() if name != "VIRTUAL_ENV"}
        self._must(command, environ, "read uv's message above; a network that blocks the package index shows up here")
        write_stamp(stamp, wanted)

    def compile_kernels(self) -> None:
        """Compile the stream's loops, unless those of these very files were: else whoever needs them first waits."""
        stamp = self.root / ".tools" / "compiled.json"
        sources = [path for package in COMPILED for path in sorted((self.root / package).rglob("*.py"))]
        wanted: dict[str, object] = {
            # What the compiler goes by: a new checkout of the same text is compiled anew.
            "sources": hashlib.sha256(
                repr([(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in sources]).encode()
            ).hexdigest(),
            "lock": digest(self.root / "uv.lock"),
        }
        if read_stamp(stamp) == wanted:
            return
        say("compiling the stream's loops: a minute or two the first time")
        command = [str(self.root / ".venv" / "bin" / "python"), "-m", "infra.compile_ahead"]
        self._must(command, self.environ, "read the message above; without, the first worker compiles them")
        write_stamp(stamp, wanted)

    def copy_kafka_jars(self) -> None:
        """Let Maven copy the jars, unless those of this very pom.xml are there. Checks the JDK either way."""
        toolchain = Toolchain.of_process(self.environ)
        toolchain.java()
        pom, target = self.root / "infra" / "kafka" / "pom.xml", self.root / ".kafka"
        wanted: dict[str, object] = {"pom": digest(pom)}
        if read_stamp(target / "stamp.json") == wanted:
            return
        maven = shutil.which("mvn", path=self.environ.get("PATH", ""))
        if maven is None:
            raise MissingProgramError("there is no `mvn` on the PATH to fetch Apache Kafka with", remedy=MAVEN_REMEDY)
        say("fetching Apache Kafka with Maven")
        fresh = self.root / ".kafka.new"
        shutil.rmtree(fresh, ignore_errors=True)
        command = [maven, "-B", "-q", "-Dstyle.color=never", "-f", str(pom), "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={fresh / 'lib'}"]
        self._must(command, self.environ, "read Maven's message above; behind a proxy Maven needs ~/.m2/settings.xml")
        write_stamp(fresh / "stamp.json", wanted)
        shutil.rmtree(target, ignore_errors=True)
        fresh.rename(target)

    def uv(self) -> Path:
        """The uv of the PATH if it is new enough, else one of our own under `.tools`."""
        own = self.root / ".tools" / "uv" / "bin" / "uv"
        for candidate in (shutil.which("uv", path=self.environ.get("PATH", "")), str(own)):
            if candidate and uv_version(candidate) >= MIN_UV:
                return Path(candidate)
        say("installing uv into .tools/uv")
        # --target works on Pythons that a distribution manages and needs no venv module.
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(own.parents[1]), UV_REQUIREMENT]
        self._must(install, self.environ, "`apt-get install python3-pip`, or install uv by hand, and try again")
        return own

    def has_nvidia_driver(self) -> bool:
        """Whether the GPU builds can be imported here."""
        in_path = shutil.which("nvidia-smi", path=self.environ.get("PATH", ""))
        return in_path is not None or Path("/proc/driver/nvidia/version").exists()

    def _must(self, command: Sequence[str], environ: Mapping[str, str], remedy: str) -> None:
        ran = subprocess.run(command, cwd=self.root, env=dict(environ), stdin=subprocess.DEVNULL, check=False)
        if ran.returncode != 0:
            raise SetupError(f"`{' '.join(command[:4])} …` failed with code {ran.returncode}", remedy=remedy)


def uv_version(program: str) -> tuple[int, ...]:
    """(major, minor) of a uv, (0, 0) if it does not run."""
    try:
        ran = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0)
    match = re.match(r"uv (\d+)\.(\d+)", ran.stdout)
    return (int(match[1]), int(match[2])) if match and ran.returncode == 0 else (0, 0)


def digest(path: Path) -> str:
    """The file's content as a short name."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_stamp(path: Path) -> object:
    """What was set up last time; None if nothing was, or nothing readable."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def write_stamp(path: Path, content: Mapping[str, object]) -> None:
    """Say that all of it is done, last of all."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(content, indent=1))
    fresh.replace(path)


def say(line: str) -> None:
    """Tell a person, on stderr."""
    sys.stderr.write(f"setup: {line}\n")
    sys.stderr.flush()


def main() -> int:
    """The command behind `make setup`."""
    parser = argparse.ArgumentParser(prog="setup", description=__doc__)
    parser.add_argument("--require-kafka", action="store_true", help="fail without a JDK or Maven instead of warning")
    arguments = parser.parse_args()
    try:
        Setup(ROOT, os.environ).run(require_kafka=arguments.require_kafka)
    except ServiceError as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
