"""How every configuration dataclass is validated, stated once.

Configuration lives beside its owner as a plain frozen dataclass, so that no core depends on a validation
library. `infra.config` hands those same classes to pydantic, which reads this marker: unknown keys are
refused by name, and the docstring under a field becomes its description.
"""

from __future__ import annotations

from typing import Any, Final

STRICT: Final[dict[str, Any]] = {"extra": "forbid", "use_attribute_docstrings": True}
