"""Real services for every test that wants them.

Owns: one Kafka and one Redis for each process that runs tests, on free ports in a temporary directory, gone at the end
however it ends.
Never: a stand-in, and never a skip: without a JDK the fixture fails and says what to install.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from infra.services.stack import Addresses, Stack
from infra.setup import COMPILED
from tests import compiled_loops

# Two threads of torch wait for each other by spinning: where other tests want the same cores, all takes several times
# as long. One thread here, and none that spins in the processes that tests start; read when torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Numba's index of compiled kernels is not made for two processes that write to it at once: each has its own.
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    own = Path(__file__).parents[1] / ".pytest_cache" / "numba" / worker
    if "NUMBA_CACHE_DIR" not in os.environ:
        compiled_loops.copy(Path(__file__).parents[1], COMPILED, own)
        os.environ["NUMBA_CACHE_DIR"] = str(own)

# Compiled kernels take seconds on their first call, a busy machine draws examples slowly, and a test run must be
# repeatable: no deadline, nothing is too slow, fixed seeds.
settings.register_profile("recd", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("recd")


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard() -> None:
    """A shell starts what runs in its background deaf to SIGINT, and deafness is inherited: not by what tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    """Apache Kafka, one broker, and Redis."""
    stack = Stack(tmp_path_factory.mktemp("services"), tied=True)
    try:
        yield stack.up(brokers=1, kind="kafka")
    finally:
        stack.down()


@pytest.fixture(scope="session")
def kafka(services: Addresses) -> str:
    """Kafka's bootstrap servers. Other tests share it: name your topics and groups after the test."""
    return services.kafka


@pytest.fixture(scope="session")
def redis(services: Addresses) -> str:
    """Redis's URL. Other tests share it: prefix your keys with the test's name, never FLUSHALL."""
    return services.redis
