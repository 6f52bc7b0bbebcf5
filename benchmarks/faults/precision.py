"""Precision and range that are lost between types."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from benchmarks.faults.case import Planted, Unguarded, array, attribute, constant, fault, known
from benchmarks.faults.models import TRANSFORMER, blocks
from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var

_HALF, _FLOAT = ir.DataType.FLOAT16, ir.DataType.FLOAT


@fault(
    blocks(
        "casts there and back",
        "t# = Cast<to = 11>(x)  u# = Cast<to = 1>(t#)  y# = Neg(u#)",
        odd=("Cast<to = 11>(x)", "Cast<to = 10>(x)"),
    ),
    "u5",
)
@passes.verify.equality
class RoundingCancelled(Unguarded):
    """A Cast to half precision and back is removed, and with it the rounding."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Cast(op.Cast(x, _outputs=["inner"]), _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        return bool(attribute(values["inner"], "to") == ir.DataType.DOUBLE)

    def rewrite(self, op: Op, x: Value, inner: Value, out: Value) -> Any:
        return op.Identity(x)


@fault(
    blocks(
        "truncations",
        "t# = Round(x)  i# = Cast<to = 6>(t#)  u# = Cast<to = 1>(i#)  y# = Abs(u#)",
        odd=("Round(x)", "Neg(x)"),
    ),
    "u5",
)
@passes.verify.equality
class TruncationCancelled(Unguarded):
    """A Cast to int32 and back is removed where the float was not an integer."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Cast(op.Cast(x), _outputs=["out"])

    def applies(self, **values: Value) -> bool:
        return bool(attribute(values["out"], "to") == _FLOAT)

    def sound(self, **values: Value) -> bool:
        producer = values["x"].producer()
        return producer is not None and producer.op_type == "Round"

    def rewrite(self, op: Op, x: Value, out: Value) -> Any:
        return op.Add(x, constant(op, 0, np.float32))  # -0 becomes 0, as an integer has it


@fault(
    blocks(
        "half-precision scales",
        "t# = Mul(x, a)  u# = Mul(t#, b)  y# = Abs(u#)",
        x="float16[4,4] x",
        y="float16[4,4]",
        # In the text form halves are written as their bits: 2, 4 and 300.
        constants="float16 a = {16384}, float16 b = {17408}, float16 c = {23728}",
        odd=("Mul(x, a)  u# = Mul(t#, b)", "Mul(x, c)  u# = Mul(t#, c)"),
    ),
    "u5",
)
@passes.verify.tolerance
class HalfOverflow(Unguarded):
    """Two factors are multiplied ahead, and the product overflows half precision."""

    def pattern(self, op: Op, x: Var, a: Var, b: Var) -> Var:
        return op.Mul(op.Mul(x, a), b, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        with np.errstate(over="ignore"):
            return bool(np.isfinite(known(values["a"]) * known(values["b"])).all())

    def rewrite(self, op: Op, x: Value, a: Value, b: Value, out: Value) -> Any:
        with np.errstate(over="ignore"):
            return op.Mul(x, constant(op, known(a) * known(b)))


@fault(TRANSFORMER, 0.5)
@passes.verify.tolerance
class WeightHalved(Planted):
    """A weight matrix is stored in half precision."""

    def pattern(self, op: Op, x: Var, weight: Var) -> Var:
        return op.MatMul(x, weight, _outputs=["out"])

    def check(self, context: Any, x: Value, weight: Value, out: Value) -> bool:
        return array(weight) is not None and weight.is_initializer()

    def right(self, op: Op, x: Value, weight: Value, out: Value) -> Any:
        return op.MatMul(x, op.Identity(weight))

    def wrong(self, op: Op, x: Value, weight: Value, out: Value) -> Any:
        half = constant(op, known(weight).astype(np.float16))
        return op.MatMul(x, op.Cast(half, to=_FLOAT))


@fault(TRANSFORMER, 0.6)
@passes.verify.tolerance
class ActivationHalved(Planted):
    """An activation passes through half precision."""

    def pattern(self, op: Op, x: Var, weight: Var) -> Var:
        return op.MatMul(x, weight, _outputs=["out"])

    def check(self, context: Any, x: Value, weight: Value, out: Value) -> bool:
        return array(weight) is not None and weight.is_initializer()

    def right(self, op: Op, x: Value, weight: Value, out: Value) -> Any:
        return op.MatMul(x, op.Identity(weight))

    def wrong(self, op: Op, x: Value, weight: Value, out: Value) -> Any:
        half = op.Cast(op.Cast(x, to=_HALF), to=_FLOAT)
        return op.MatMul(half, op.Identity(weight))
