"""What one run of a model on a sample costs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.use import Shape
from onnx_passes.runtime.engine_base import Feeds
from onnx_passes.runtime.inputs.concrete_shapes import Shaping, skeleton
from onnx_passes.runtime.inputs.dims import symbols_of


class SampleCosts:
    """Operations of one run of a model on samples, each choice of shapes counted once."""

    def __init__(self, model: ir.Model, shaping: Shaping | None = None) -> None:
        """Count nothing yet.

        Args:
            model: The model.
            shaping: What made samples of it; None for a new one.
        """
        inputs = [value for value in model.graph.inputs if not value.is_initializer()]
        self._symbols = symbols_of(inputs, model)
        self._shaping = shaping or Shaping(skeleton(model))
        self._known: dict[tuple[tuple[str, Shape], ...], int] = {}

    def of(self, feeds: Feeds) -> int:
        """Return the operations of one run; at least 1.

        Args:
            feeds: Values by input; others than arrays are left out.
        """
        shapes = {n: d.shape for n, d in feeds.items() if isinstance(d, np.ndarray)}
        key = tuple(sorted(shapes.items()))
        if key not in self._known:
            concrete = self._shaping.fix(shapes, self._sizes(shapes))
            self._known[key] = max(1, concrete.operations)
        return self._known[key]

    def _sizes(self, shapes: Mapping[str, Shape]) -> dict[str, int]:
        return {
            dim: size
            for name, shape in shapes.items()
            for dim, size in zip(self._symbols.shapes.get(name, ()), shape, strict=False)
            if isinstance(dim, str) and dim in self._symbols.kinds
        }
