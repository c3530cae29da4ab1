"""Which ports and programs a directory of services uses.

Owns: the first choice, and choosing again where somebody else took a port in the meantime.
Never: starts anything; it stops a cluster only because its members have to learn a changed port together.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from infra.services import ports, record
from infra.services.fleet import Fleet
from infra.services.record import BrokerRecord, Kind, StackRecord
from infra.services.toolchain import Toolchain


class PortChooser:
    """Hands out ports of one directory, none of them twice."""

    def __init__(self, directory: Path, taken: frozenset[int] = frozenset()) -> None:
        """`taken` are ports that are not to be handed out."""
        self._directory = directory
        self._taken = set(taken)

    def next(self) -> int:
        """A port that is free now."""
        port = ports.choose(self._directory, self._taken)
        self._taken.add(port)
        return port


def fresh_record(
    directory: Path, kind: Kind, brokers: int, toolchain: Toolchain, known: StackRecord | None
) -> StackRecord:
    """A first record, or one that turns a stand-in's directory into Kafka's and keeps its Redis."""
    chooser = PortChooser(directory, known.ports() if known else frozenset())
    members = tuple(BrokerRecord(node_id, chooser.next(), chooser.next()) for node_id in range(1, brokers + 1))
    return StackRecord(
        kind=kind,
        cluster_id=record.new_cluster_id(),
        brokers=members,
        redis_port=known.redis_port if known else chooser.next(),
        redis_program=known.redis_program if known else str(toolchain.redis()),
    )


def with_free_ports(known: StackRecord, fleet: Fleet, report: Callable[[str], None]) -> StackRecord:
    """The same record, with another port wherever a service that does not run would find its own taken."""
    chooser = PortChooser(fleet.directory, known.ports())
    redis_port = known.redis_port
    if fleet.redis.process.identity() is None and not ports.is_free(redis_port):
        redis_port = chooser.next()
        report(f"port {known.redis_port} is taken: redis moves to {redis_port}")
    down = {broker.node_id for broker, process in fleet.broker_processes() if process.identity() is None}
    brokers = tuple(_moved(broker, chooser, report) if broker.node_id in down else broker for broker in known.brokers)
    if brokers != known.brokers:
        # Every broker's settings name all the others.
        fleet.stop_brokers(report)
    return msgspec.structs.replace(known, redis_port=redis_port, brokers=brokers)


def _moved(broker: BrokerRecord, chooser: PortChooser, report: Callable[[str], None]) -> BrokerRecord:
    changes = {
        name: chooser.next()
        for name, port in (("client_port", broker.client_port), ("controller_port", broker.controller_port))
        if not ports.is_free(port)
    }
    if changes:
        report(f"a port of broker {broker.node_id} is taken: it moves, {changes}")
    return msgspec.structs.replace(broker, **changes) if changes else broker
