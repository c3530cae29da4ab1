"""The processes behind one record.

Owns: starting all of them, waiting until clients get answers, and stopping all of them.
Never: changes the record or chooses anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from infra.clock import Clock, Deadline
from infra.services import kafka, memory_broker
from infra.services.errors import ServiceStartError
from infra.services.kafka import Broker, BrokerPorts, KafkaCluster, brokers_that_answer
from infra.services.memory_broker import MemoryBroker
from infra.services.process import POLL_MS, Child, ServiceProcess
from infra.services.record import BrokerRecord, StackRecord
from infra.services.redis import START_MS as REDIS_START_MS
from infra.services.redis import RedisServer
from infra.services.toolchain import Toolchain

ASK_MS = 2_000


@dataclass(frozen=True, slots=True)
class Fleet:
    """All services of one directory."""

    known: StackRecord
    directory: Path
    toolchain: Toolchain
    clock: Clock
    tied: bool

    @property
    def redis(self) -> RedisServer:
        """The Redis server. The program is remembered: another version might not read its files."""
        remembered = Path(self.known.redis_program)
        program = remembered if remembered.exists() else self.toolchain.redis()
        return RedisServer(program, self.directory, self.known.redis_port, self.clock)

    @property
    def memory_broker(self) -> MemoryBroker:
        """The stand-in; it uses the first broker's port."""
        port = self.known.brokers[0].client_port
        return MemoryBroker(self.toolchain.memory_broker(), self.directory, port, self.clock)

    @property
    def cluster(self) -> KafkaCluster:
        """Kafka's brokers."""
        members = tuple(BrokerPorts(one.node_id, one.client_port, one.controller_port) for one in self.known.brokers)
        return KafkaCluster(self.known.cluster_id, members)

    @property
    def bootstrap(self) -> str:
        """Where Kafka clients connect."""
        return self.cluster.bootstrap

    @property
    def redis_url(self) -> str:
        """Where Redis clients connect."""
        return self.redis.url

    def broker_processes(self) -> Iterator[tuple[BrokerRecord, ServiceProcess]]:
        """Every broker with its process, whatever plays the broker."""
        for broker in self.known.brokers:
            name = f"kafka-{broker.node_id}" if self.known.kind == "kafka" else "memory-broker"
            yield broker, ServiceProcess(name, self.directory, self.clock)

    def start(self, report: Callable[[str], None]) -> None:
        """Start what does not run and return when everything answers; on any failure stop what this call started."""
        started: list[ServiceProcess] = []
        try:
            redis_child = self._start_redis(started, report)
            if self.known.kind == "kafka":
                self._start_kafka(started, report)
            else:
                self._start_memory(started, report)
            if redis_child is not None:
                self.redis.wait_ready(redis_child, Deadline.after(self.clock, REDIS_START_MS))
        except BaseException:
            for process in reversed(started):
                process.stop(grace_ms=5_000)
            raise

    def stop(self, report: Callable[[str], None]) -> list[str]:
        """Stop everything; the names of what ran."""
        stopped = self.stop_brokers(report)
        if self.redis.stop():
            report("redis stopped")
            stopped.append("redis")
        return stopped

    def stop_brokers(self, report: Callable[[str], None]) -> list[str]:
        """Stop the brokers, all at once.

        A broker leaves in good order by a vote. The last ones of a cluster, when most have left, would ask for one for
        ever: they do not get the whole time.
        """
        running = [process for _, process in self.broker_processes() if process.identity() is not None]
        for process in running:
            process.ask_to_stop()
        majority = len(self.cluster.brokers) // 2 + 1
        deadline, can_vote = Deadline.after(self.clock, kafka.STOP_MS), True
        while (alive := [process for process in running if process.identity() is not None]) and not deadline.passed:
            if can_vote and len(alive) < majority:
                can_vote = False
                deadline = Deadline.after(self.clock, min(deadline.left_ms(), kafka.STOP_ALONE_MS))
            self.clock.sleep(POLL_MS)
        for process in running:
            process.stop(grace_ms=0)
            process.forget()
            report(f"{process.name} stopped")
        return [process.name for process in running]

    def _start_redis(self, started: list[ServiceProcess], report: Callable[[str], None]) -> Child | None:
        if self.redis.process.identity() is not None:
            return None
        report(f"starting redis on {self.redis.url}")
        started.append(self.redis.process)
        return self.redis.start(tied=self.tied)

    def _start_memory(self, started: list[ServiceProcess], report: Callable[[str], None]) -> None:
        if self.memory_broker.process.identity() is not None:
            return
        report(f"starting the in-memory broker on {self.memory_broker.address}")
        started.append(self.memory_broker.process)
        child = self.memory_broker.start(tied=self.tied)
        self.memory_broker.wait_ready(child, Deadline.after(self.clock, memory_broker.START_MS))

    def _start_kafka(self, started: list[ServiceProcess], report: Callable[[str], None]) -> None:
        programs = self.toolchain.kafka()
        brokers = [Broker(programs, self.directory, self.cluster, one, self.clock) for one in self.cluster.brokers]
        children: list[tuple[Broker, Child]] = []
        for broker in brokers:
            if broker.process.identity() is None:
                report(f"starting {broker.process.name} on {broker.ports.address}")
                broker.format()
                started.append(broker.process)
                children.append((broker, broker.start(tied=self.tied)))
        deadline = Deadline.after(self.clock, kafka.START_MS)
        for broker, child in children:
            broker.wait_ready(child, deadline)
        self._wait_for_all_brokers(deadline)

    def _wait_for_all_brokers(self, deadline: Deadline) -> None:
        wanted = len(self.known.brokers)
        while (answering := brokers_that_answer(self.bootstrap, ASK_MS)) < wanted:
            silent = [process for _, process in self.broker_processes() if process.identity() is None]
            if silent or deadline.passed:
                process = (silent or [process for _, process in self.broker_processes()])[0]
                raise ServiceStartError(
                    f"{answering} of {wanted} Kafka brokers answer; {process.name} "
                    + ("ended" if silent else "runs but does not join"),
                    log_tail=process.log_tail(),
                    remedy=f"read {process.log_file}; `recd down` and `recd up` start from a clean state, data is kept",
                )
            self.clock.sleep(50)
