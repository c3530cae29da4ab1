"""`recd up`: start local Kafka and Redis and wait until both answer.

Owns: the command's options and output. Never: how a service is started (infra/services).
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from infra.clock import Clock
from infra.commands.services_output import (
    DEFAULT_DIRECTORY,
    DirectoryOption,
    JsonOption,
    exit_codes,
    put,
    put_services,
    say,
)
from infra.services.stack import Addresses, Stack

BrokersOption = Annotated[
    int | None, typer.Option("--brokers", help="1, or 3 for a replicated cluster. Default: what is there, else 1.")
]
MemoryOption = Annotated[
    bool, typer.Option("--memory", help="The in-memory stand-in instead of Kafka; it forgets everything when stopped.")
]


def up(
    directory: DirectoryOption = DEFAULT_DIRECTORY,
    brokers: BrokersOption = None,
    memory: MemoryOption = False,
    as_json: JsonOption = False,
) -> None:
    """Start Kafka and Redis on free loopback ports and print their addresses, as lines for a shell.

    What already runs is left alone; data of earlier runs is still there. Without a JDK an in-memory stand-in takes
    Kafka's place and one line says what it cannot show.

    Examples:

        recd up

        eval "$(recd up)"               the other commands then find them

        recd up --brokers 3 --dir /tmp/cluster

        recd up --json | tail -1
    """
    clock = Clock()
    begun_ms = clock.monotonic_ms()
    with exit_codes(as_json=as_json):
        stack = Stack(directory, clock=clock, report=say)
        addresses = stack.up(brokers, "memory" if memory else "auto")
        put_services(stack.status().services, as_json=as_json, to=sys.stderr)
    if as_json:
        summary = {"event": "summary", "ok": True, **asdict(addresses), "directory": str(stack.directory)}
        put(summary | {"wall_ms": clock.monotonic_ms() - begun_ms})
    else:
        for name, value in environment(addresses).items():
            sys.stdout.write(f"export {name}={value}\n")


def environment(addresses: Addresses) -> dict[str, str]:
    """What tells every other command where these services are."""
    found = {"RECD__KAFKA__BOOTSTRAP": addresses.kafka, "RECD__REDIS__URL": addresses.redis}
    return found | ({"RECD__KAFKA__PLAIN": "true"} if addresses.kind == "memory" else {})
