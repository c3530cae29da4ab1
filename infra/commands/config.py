"""`recd config`: check the configuration and show every value in force.

Owns: the command's options and output. Never: what is valid (infra/config).
"""

from __future__ import annotations

import json
import sys

from infra.commands.options import ConfigOption, JsonOption, SetOption
from infra.config import load, to_values
from infra.config_file import masked, resolved


def config(path: ConfigOption = None, overrides: SetOption = None, as_json: JsonOption = False) -> None:
    """Validate file, environment and flags together, and print what results; secrets are masked.

    Exit code 2 names every key that is refused, its value, where it came from, and the fix.

    Examples:

        recd config

        RECD__SESSION__GAP_MS=60000 recd config --set batch.samples=512
    """
    settings = load(path, overrides or ())
    sys.stdout.write(json.dumps(masked(to_values(settings))) + "\n" if as_json else resolved(settings))
