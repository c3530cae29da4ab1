"""What a feature group is, without any of its samples: which features, how wide, weighted or not, in which form.

Owns the description that formats need which keep ids only, such as records for people and TorchRec's types. Never
what the features mean: that is `streams.events.schema`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.ikjt.dedup import deduplicate
from streams.ikjt.ikjt import F32
from streams.ikjt.jagged import Jagged
from streams.ikjt.partial import deduplicate_windows
from streams.ikjt.windows import Group, PartialIkjt


@dataclass(frozen=True, slots=True)
class FeatureLayout:
    """What plain ids do not say of a feature."""

    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.int64))
    """int64 or int32."""
    weighted: bool = False


@dataclass(frozen=True, slots=True)
class GroupLayout:
    """What plain ids do not say of a group."""

    group: str
    features: Mapping[str, FeatureLayout]
    """In the order of the group."""
    dense_names: tuple[str, ...] = ()
    partial: bool = False
    """Whether rows are kept as windows; the sessions are needed then."""

    @staticmethod
    def of(group: Group) -> GroupLayout:
        """The description of a group that is there."""
        rows_of = group.buffers if isinstance(group, PartialIkjt) else group.features
        features = {key: FeatureLayout(rows.values.dtype, rows.weights is not None) for key, rows in rows_of.items()}
        return GroupLayout(group.group, features, group.dense_names, isinstance(group, PartialIkjt))

    def build(
        self, features: Mapping[str, Jagged], session_id: npt.NDArray[Any] | None = None, dense: F32 | None = None
    ) -> Group:
        """The group of B samples of these features. Raises ValueError if a partial one has no sessions."""
        if not self.partial:
            return deduplicate(self.group, features, dense, self.dense_names)
        if session_id is None:
            raise ValueError(f"group {self.group}: is partial; give the session_id of the samples")
        return deduplicate_windows(self.group, features, session_id, dense, self.dense_names)
