"""Operators that are evaluated where places are known and rounding is bounded."""

from __future__ import annotations

from typing import ClassVar

from onnx_passes.ops.call import Call, Tensor
from onnx_passes.ops.operator_class import Operator, Result
from onnx_passes.ops.semantics import Elements, Misfit, Opaque, Unsupported, is_float


class Composition(Operator, abstract=True):
    """An operator of many steps; where these are not known, a function of its operands.

    Attributes:
        rounds: Whether it computes numbers, which kernels round in ways of their own.
    """

    rounds: ClassVar[bool] = True

    def computed(self, call: Call) -> Result:
        """Return the results of one call.

        Raises:
            Unsupported: This form is not described, or places are not known.
        """
        raise NotImplementedError

    def evaluate(self, call: Call) -> Result:
        if self.rounds and not call.semantics.expands:
            raise Opaque(f"the rounding of {self.op_type}")
        try:
            return self.computed(call)
        except Misfit:
            raise
        except Unsupported as gap:
            raise Opaque(str(gap)) from gap


def measured_by(call: Call, found: Tensor, terms: Elements, factor: float = 1.0) -> Tensor:
    """Return a sum whose kernel is wrong relative to the sum of its terms' sizes.

    Args:
        call: The call, for its arithmetic.
        found: The sums, of shape [...].
        terms: Their terms [..., n], of a shape that broadcasts.
        factor: What the sizes are multiplied by.
    """
    a = call.primitives(found.dtype)

    def size() -> Elements:
        sizes = call.semantics.map(lambda t: a.mul(a.abs(t), factor), terms)
        return call.semantics.along(a.total, sizes)

    if not is_float(found.dtype):
        return found
    return Tensor(call.semantics.kernel(found.data, found.dtype, size), found.dtype)
