"""Apache Kafka in KRaft mode on the loopback address: one broker, or a cluster of three.

Owns: the settings, the formatted storage, and starting, stopping and asking one broker (every one is also a
controller). Storage is formatted in a folder beside its place and renamed, so a half-formatted one never counts.
Never: creates topics, chooses ports or remembers anything between two commands.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from infra.clock import Clock, Deadline
from infra.services import ports
from infra.services.errors import PortTakenError, ServiceStartError
from infra.services.process import Child, ServiceProcess
from infra.services.toolchain import KafkaPrograms

FORMAT_MS, START_MS, STOP_MS, STOP_ALONE_MS = 60_000, 90_000, 30_000, 5_000
BIND_FAILURES = ("Address already in use", "Socket server failed to bind")
# C1 only and the serial collector: measured faster to start and smaller on few cores.
JVM: Final = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")

FIXED_SETTINGS: Final = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # A topic exists because somebody meant it to, with the settings it needs.
    "auto.create.topics.enable": "false",
    # Event times are the record timestamps: nothing is too old to keep or too new to accept.
    "log.retention.ms": "-1",
    # What a topic's own retention forbids goes within seconds, so that a wrong setting shows at once.
    "log.initial.task.delay.ms": "2000",
    "log.retention.check.interval.ms": "5000",
    "log.message.timestamp.before.max.ms": "9223372036854775807",
    "log.message.timestamp.after.max.ms": "9223372036854775807",
    "message.max.bytes": str(16 * 1024 * 1024),
    "replica.fetch.max.bytes": str(16 * 1024 * 1024),
    "group.initial.rebalance.delay.ms": "0",
    # After a kill -9 the controller lets the broker in again only when its old session is over (9 s by default).
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # Who looks for transactions whose time has run out, looks every second (every ten by default).
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # One machine, few groups: fewer internal partitions and small indexes start, stop and recover sooner.
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.num.partitions": "8",
    "share.coordinator.state.topic.num.partitions": "2",
    "log.index.size.max.bytes": str(1024 * 1024),
    "num.network.threads": "2",
    "num.io.threads": "4",
}


@dataclass(frozen=True, slots=True)
class BrokerPorts:
    """Where one broker listens."""

    node_id: int
    client_port: int
    controller_port: int

    @property
    def address(self) -> str:
        """What a client connects to."""
        return f"{ports.LOOPBACK}:{self.client_port}"


@dataclass(frozen=True, slots=True)
class KafkaCluster:
    """The whole cluster as one directory describes it."""

    cluster_id: str
    brokers: tuple[BrokerPorts, ...]

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(broker.address for broker in self.brokers)

    def settings(self, broker: BrokerPorts, storage: Path) -> dict[str, str]:
        """All settings of one broker that keeps its data in `storage`."""
        copies = str(len(self.brokers))
        in_sync = str(len(self.brokers) // 2 + 1)
        voters = ",".join(f"{one.node_id}@{ports.LOOPBACK}:{one.controller_port}" for one in self.brokers)
        return FIXED_SETTINGS | {
            "node.id": str(broker.node_id),
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://{broker.address},CONTROLLER://{ports.LOOPBACK}:{broker.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{broker.address}",
            "log.dirs": str(storage),
            "default.replication.factor": copies,
            "min.insync.replicas": in_sync,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": in_sync,
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": in_sync,
        }


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker of a cluster in a directory."""

    programs: KafkaPrograms
    directory: Path
    cluster: KafkaCluster
    ports: BrokerPorts
    clock: Clock

    @property
    def process(self) -> ServiceProcess:
        """The broker's process, running or not."""
        return ServiceProcess(f"kafka-{self.ports.node_id}", self.directory, self.clock)

    @property
    def storage(self) -> Path:
        """The formatted storage."""
        return self.directory / "data" / f"kafka-{self.ports.node_id}"

    def format(self) -> None:
        """Make the storage unless it is there. What an interrupted call left is thrown away."""
        if self.storage.exists():
            return
        fresh = self.storage.with_suffix(".formatting")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        settings = self._write_settings(f"kafka-{self.ports.node_id}.format.properties", fresh)
        process = ServiceProcess(f"kafka-{self.ports.node_id}-format", self.directory, self.clock)
        arguments = ["format", "--cluster-id", self.cluster.cluster_id, "--config", str(settings)]
        child = process.start(self._java("kafka.tools.StorageTool", *arguments), os.environ, tied=True)
        child.wait_done(Deadline.after(self.clock, FORMAT_MS))
        fresh.rename(self.storage)

    def start(self, *, tied: bool) -> Child:
        """Start on formatted storage; the caller waits with `wait_ready`."""
        settings = self._write_settings(f"kafka-{self.ports.node_id}.properties", self.storage)
        return self.process.start(self._java("kafka.Kafka", str(settings)), os.environ, tied=tied)

    def wait_ready(self, child: Child, deadline: Deadline) -> None:
        """Return when the broker accepts connections. Raises PortTakenError if another port would help."""
        try:
            child.wait_ready(lambda: ports.answers(self.ports.client_port), deadline)
        except ServiceStartError as error:
            if any(sign in child.log_since_start() for sign in BIND_FAILURES):
                raise PortTakenError(error.what, log_tail=error.log_tail, remedy=error.remedy) from error
            raise

    def stop(self) -> bool:
        """Stop in good order. False if it was not running."""
        return self.process.stop(STOP_MS)

    def _write_settings(self, name: str, storage: Path) -> Path:
        path = self.directory / "etc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        settings = self.cluster.settings(self.ports, storage)
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def _java(self, main_class: str, *arguments: str) -> list[str]:
        log4j = f"-Dlog4j2.configurationFile={Path(__file__).resolve().parents[1] / 'kafka' / 'log4j2.properties'}"
        classpath = f"{self.programs.jars}/*"
        return [str(self.programs.java), *JVM, log4j, "-cp", classpath, main_class, *arguments]


def brokers_that_answer(bootstrap: str, timeout_ms: int) -> int:
    """How many brokers a client sees; 0 if none answers in time."""
    # Refused connections are what is being waited out here: librdkafka would log each of them.
    quiet = {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100}
    admin = AdminClient({"bootstrap.servers": bootstrap, **quiet})
    try:
        return len(admin.list_topics(timeout=timeout_ms / 1000).brokers)
    except KafkaException:
        return 0
