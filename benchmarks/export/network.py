"""A PyTorch network with what an exporter has to know of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Network:
    """A module in inference mode and example arguments.

    Attributes:
        module: What is exported.
        args: Example arguments; tensors, or nested tuples of them.
        inputs: Names of the tensors in ``args``, flattened.
        outputs: Names of the tensors it returns, flattened.
        dynamic: Names of the dynamic axes of an input or output.
    """

    module: torch.nn.Module
    args: tuple[Any, ...]
    inputs: Sequence[str]
    outputs: Sequence[str]
    dynamic: dict[str, dict[int, str]]

    def dynamic_shapes(self) -> tuple[Any, ...]:
        """Return the axes of ``inputs`` in the nesting of ``args``."""
        names = iter(self.inputs)

        def of(arg: Any) -> Any:
            if isinstance(arg, tuple):
                return tuple(of(part) for part in arg)
            return self.dynamic.get(next(names), {})

        shapes = tuple(of(arg) for arg in self.args)
        return (
            (shapes,) if isinstance(self.module, Outputs) else shapes
        )  # *args is one argument


class Outputs(torch.nn.Module):
    """A module of the Transformers library that returns plain tensors, by their names."""

    def __init__(
        self, model: torch.nn.Module, keys: Sequence[str], taken: Sequence[str]
    ) -> None:
        super().__init__()
        self.model = model
        self.keys = tuple(keys)
        self.taken = tuple(taken)

    def forward(self, *args: torch.Tensor) -> Any:
        named = dict(zip(self.keys, args, strict=True))
        result = self.model(**named)
        return tuple(getattr(result, name) for name in self.taken)


def ids(vocabulary: int, *shape: int) -> torch.Tensor:
    """Return random tokens."""
    return torch.randint(0, vocabulary, shape)
