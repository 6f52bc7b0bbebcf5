"""What is done to outputs before they are compared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from onnx_passes.arrays import Array
from onnx_passes.contracts.scores import kind_of, widen
from onnx_passes.errors import UsageError
from onnx_passes.runtime.engine_base import Data, Outputs, did_you_mean

_TEXT = re.compile(r"(?:(?P<name>.+):)?top-k=(?P<k>[1-9]\d*)")


@dataclass(frozen=True)
class LargestIndices:
    """Outputs become the indices of their largest elements along the last axis.

    Attributes:
        every: How many of each output that is not named; None leaves those as they are.
        by_name: How many, by name of an output.
    """

    every: int | None = None
    by_name: Mapping[str, int] | None = None

    def check(self, outputs: Iterable[str]) -> None:
        """Refuse names of no output.

        Raises:
            UsageError: A name is not that of an output.
        """
        known = list(outputs)
        for name in self.by_name or {}:
            if name not in known:
                raise UsageError(
                    f"--postprocess: there is no output {name!r}",
                    help=did_you_mean(name, known),
                )

    def __call__(self, values: Outputs, outputs: frozenset[str]) -> Outputs:
        """Apply to a sample.

        Args:
            values: The values.
            outputs: Those of them that are outputs of the model; the others stay.
        """
        return {n: self._one(n, v) if n in outputs else v for n, v in values.items()}

    def _one(self, name: str, value: Data) -> Data:
        k = (self.by_name or {}).get(name, self.every)
        if k is None or not isinstance(value, np.ndarray) or not value.ndim:
            return value
        return top_k(value, k) if kind_of(value.dtype) in ("float", "int") else value


def top_k(array: Array, k: int) -> Array:
    """Return the indices of the largest elements along the last axis, the largest first.

    Of equal elements the first ranks first, as in TopK; NaN ranks last.

    Args:
        array: Numbers of any type, of shape [..., n].
        k: How many; all, where the axis is shorter.

    Returns:
        int64 of shape [..., min(k, last axis)].
    """
    order: Array = np.argsort(-widen(array), axis=-1, kind="stable")[..., :k]
    return order.astype(np.int64)


def read_postprocess(texts: Iterable[str]) -> LargestIndices | None:
    """Read ``top-k=5`` and ``NAME:top-k=5``.

    Raises:
        UsageError: A text is neither.
    """
    every: int | None = None
    by_name: dict[str, int] = {}
    for text in texts:
        match = _TEXT.fullmatch(text)
        if match is None:
            raise UsageError(
                f"--postprocess {text!r} cannot be read",
                help="write top-k=5, or NAME:top-k=5 for one output",
            )
        if match["name"] is None:
            every = int(match["k"])
        else:
            by_name[match["name"]] = int(match["k"])
    return LargestIndices(every, by_name) if every is not None or by_name else None
