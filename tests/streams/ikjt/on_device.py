"""A stand-in for a device on a machine that has none: torch's meta device, and a watch over what is asked of it.

A meta tensor has no data, so whatever would wait for a device's data fails on it by itself, or is named here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

META = torch.device("meta")

WAITS = {
    "aten::_local_scalar_dense",
    "aten::item",
    "aten::nonzero",
    "aten::masked_select",
    "aten::unique_dim",
    "aten::_unique2",
    "aten::equal",
    "aten::is_nonzero",
    "aten::repeat_interleave",
}


class NoWait(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own has no types
    """Fails on every operation that needs the data of a tensor on the device; counts the copies to it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # the same
        self.copies = 0

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401  (an overload of torch's; it has no public type)
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        """Look at one operation, then run it."""
        given = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, given)) if isinstance(leaf, torch.Tensor)]
        on_device = any(tensor.device == META for tensor in tensors)
        name = func.name().split(".")[0]
        result = run(func, args, given)
        leaves = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        back = on_device and any(leaf.device != META for leaf in leaves)
        if on_device and (name in WAITS or back):
            raise AssertionError(f"{name} waits for the device")
        if not on_device and any(leaf.device == META for leaf in leaves):
            if not given.get("non_blocking", False):
                raise AssertionError(f"{name} copies and waits for the copy")
            self.copies += 1
        return result


def run(func: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    return func(*args, **kwargs)
