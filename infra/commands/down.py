"""`recd down`: stop the local services; their data stays.

Owns: the command's options and output. Never: how a service is stopped (infra/services).
"""

from __future__ import annotations

import sys

from infra.clock import Clock
from infra.commands.services_output import DEFAULT_DIRECTORY, DirectoryOption, JsonOption, exit_codes, put, say
from infra.services.stack import Stack


def down(directory: DirectoryOption = DEFAULT_DIRECTORY, as_json: JsonOption = False) -> None:
    """Stop Kafka and Redis. `recd up` finds their data again; deleting the directory deletes it.

    Nothing running is not an error.

    Examples:

        recd down

        recd down --dir /tmp/cluster --json
    """
    clock = Clock()
    begun_ms = clock.monotonic_ms()
    with exit_codes(as_json=as_json):
        stack = Stack(directory, clock=clock, report=say)
        stopped = stack.down()
    if as_json:
        summary = {"event": "summary", "ok": True, "stopped": stopped, "directory": str(stack.directory)}
        put(summary | {"wall_ms": clock.monotonic_ms() - begun_ms})
    else:
        sys.stdout.write(f"stopped: {', '.join(stopped)}\n" if stopped else "nothing was running\n")
