"""Batch normalisation folded into the convolution before it."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.faults.case import Planted, attribute, attributes, constant, fault, known
from benchmarks.faults.models import RESNET
from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var


class _Folded(Planted):
    """Fold a BatchNormalization into its Conv."""

    def pattern(
        self, op: Op, x: Var, weight: Var, scale: Var, bias: Var, mean: Var, variance: Var
    ) -> Var:
        y = op.Conv(x, weight, _outputs=["conv"])
        return op.BatchNormalization(y, scale, bias, mean, variance, _outputs=["out"])

    def right(self, op: Op, **values: Any) -> Any:
        deviation = np.sqrt(known(values["variance"]) + attribute(values["out"], "epsilon"))
        return self.folded(op, deviation=deviation, **values)

    def folded(
        self,
        op: Op,
        x: Value,
        weight: Value,
        scale: Value,
        bias: Value,
        mean: Value,
        conv: Value,
        deviation: Any,
        sign: float = -1,
        **rest: Value,
    ) -> Any:
        """Divide by a deviation, and add the mean with a sign."""
        factor = known(scale) / deviation
        shift = known(bias) + sign * known(mean) * factor
        scaled = known(weight) * factor[:, None, None, None]
        constants = constant(op, scaled, np.float32), constant(op, shift, np.float32)
        return op.Conv(x, *constants, **attributes(conv))


@fault(RESNET, 0.5)
@passes.verify.tolerance(rtol=1e-5)
class BatchNormVariance(_Folded):
    """A batch normalisation is folded by its variance instead of the root of it."""

    def wrong(self, op: Op, **values: Any) -> Any:
        return self.folded(op, deviation=known(values["variance"]), **values)


@fault(RESNET, 0.7)
@passes.verify.tolerance(rtol=1e-5)
class BatchNormMean(_Folded):
    """A batch normalisation is folded with the mean added instead of subtracted."""

    def wrong(self, op: Op, **values: Any) -> Any:
        deviation = np.sqrt(known(values["variance"]) + attribute(values["out"], "epsilon"))
        return self.folded(op, deviation=deviation, sign=1, **values)


@fault(RESNET, 0.9)
@passes.verify.tolerance(rtol=1e-5)
class BatchNormEpsilon(_Folded):
    """A batch normalisation is folded with an epsilon of 1e-3, another framework's default."""

    def wrong(self, op: Op, **values: Any) -> Any:
        return self.folded(op, deviation=np.sqrt(known(values["variance"]) + 1e-3), **values)
