"""Operands in the wrong order, and operands that are dropped."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.faults.case import Planted, array, attribute, constant, fault
from benchmarks.faults.models import LLAMA, RESNET, TRANSFORMER, blocks
from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var


@fault(TRANSFORMER, 0.6)
@passes.verify.equality
class SubtractionTurned(Planted):
    """``x - mean`` becomes ``mean - x``."""

    def pattern(self, op: Op, x: Var, y: Var) -> Var:
        return op.Sub(x, y, _outputs=["out"])

    def check(self, context: Any, x: Value, y: Value, out: Value) -> bool:
        return array(x) is None

    def right(self, op: Op, x: Value, y: Value, out: Value) -> Any:
        return op.Add(x, op.Neg(y))

    def wrong(self, op: Op, x: Value, y: Value, out: Value) -> Any:
        return op.Add(y, op.Neg(x))


@fault(TRANSFORMER, 0.7)
@passes.verify.tolerance
class DivisionTurned(Planted):
    """``x / deviation`` becomes ``deviation / x``."""

    def pattern(self, op: Op, x: Var, y: Var) -> Var:
        return op.Div(x, y, _outputs=["out"])

    def check(self, context: Any, x: Value, y: Value, out: Value) -> bool:
        return array(x) is None and array(y) is None

    def right(self, op: Op, x: Value, y: Value, out: Value) -> Any:
        return op.Mul(x, op.Reciprocal(y))

    def wrong(self, op: Op, x: Value, y: Value, out: Value) -> Any:
        return op.Mul(y, op.Reciprocal(x))


@fault(
    blocks(
        "square products", "t# = Abs(x)  y# = MatMul(t#, b)", x="float[4,4] x, float[4,4] b"
    )
)
@passes.verify.tolerance
class ProductTurned(Planted):
    """``a @ b`` of square matrices becomes ``b @ a``."""

    def pattern(self, op: Op, a: Var, b: Var) -> Var:
        return op.MatMul(a, b, _outputs=["out"])

    def check(self, context: Any, a: Value, b: Value, out: Value) -> bool:
        return b.producer() is None

    def right(self, op: Op, a: Value, b: Value, out: Value) -> Any:
        flipped = op.MatMul(op.Transpose(b, perm=[1, 0]), op.Transpose(a, perm=[1, 0]))
        return op.Transpose(flipped, perm=[1, 0])

    def wrong(self, op: Op, a: Value, b: Value, out: Value) -> Any:
        flipped = op.MatMul(op.Transpose(a, perm=[1, 0]), op.Transpose(b, perm=[1, 0]))
        return op.Transpose(flipped, perm=[1, 0])


@fault(TRANSFORMER, 0.3)
@passes.verify.equality
class MaskDropped(Planted):
    """The mask of an attention is dropped."""

    def pattern(self, op: Op, scores: Var, mask: Var) -> Var:
        return op.Softmax(op.Add(scores, mask), _outputs=["out"])

    def check(self, context: Any, scores: Value, mask: Value, out: Value) -> bool:
        producer = scores.producer()
        return producer is not None and producer.op_type == "Div"

    def right(self, op: Op, scores: Value, mask: Value, out: Value) -> Any:
        return op.Softmax(op.Add(mask, scores), axis=-1)

    def wrong(self, op: Op, scores: Value, mask: Value, out: Value) -> Any:
        return op.Softmax(scores, axis=-1)


@fault(LLAMA, 0.4)
@passes.verify.equality
class RotaryUnsigned(Planted):
    """The minus sign of a rotary embedding is lost."""

    def pattern(self, op: Op, high: Var, low: Var) -> Var:
        return op.Concat(op.Neg(high), low, _outputs=["out"])

    def right(self, op: Op, high: Value, low: Value, out: Value) -> Any:
        return op.Concat(op.Mul(high, constant(op, -1, np.float32)), low, axis=-1)

    def wrong(self, op: Op, high: Value, low: Value, out: Value) -> Any:
        return op.Concat(op.Identity(high), low, axis=-1)


@fault(LLAMA, 0.7)
@passes.verify.equality
class RotaryHalvesTurned(Planted):
    """The halves of a rotary embedding change places."""

    def pattern(self, op: Op, high: Var, low: Var) -> Var:
        return op.Concat(op.Neg(high), low, _outputs=["out"])

    def right(self, op: Op, high: Value, low: Value, out: Value) -> Any:
        return op.Concat(op.Mul(high, constant(op, -1, np.float32)), low, axis=-1)

    def wrong(self, op: Op, high: Value, low: Value, out: Value) -> Any:
        return op.Concat(low, op.Mul(high, constant(op, -1, np.float32)), axis=-1)


@fault(LLAMA, 0.6)
@passes.verify.tolerance
class RootMultiplied(Planted):
    """``x * (1 / root)`` becomes ``x * root``."""

    def pattern(self, op: Op, x: Var, one: Var, root: Var) -> Var:
        return op.Mul(x, op.Div(one, root), _outputs=["out"])

    def check(self, context: Any, x: Value, one: Value, root: Value, out: Value) -> bool:
        numerator = array(one)
        return numerator is not None and bool(np.all(numerator == 1))

    def right(self, op: Op, x: Value, one: Value, root: Value, out: Value) -> Any:
        return op.Div(x, root)

    def wrong(self, op: Op, x: Value, one: Value, root: Value, out: Value) -> Any:
        return op.Mul(x, root)


@fault(LLAMA, 0.4)
@passes.verify.equality
class HeadsInterleaved(Planted):
    """Key heads are repeated as a whole row, not each beside itself."""

    def pattern(self, op: Op, x: Var, axes: Var, wide: Var, shape: Var) -> Var:
        expanded = op.Expand(op.Unsqueeze(x, axes), wide)
        return op.Reshape(expanded, shape, _outputs=["out"])

    def right(
        self, op: Op, x: Value, axes: Value, wide: Value, shape: Value, out: Value
    ) -> Any:
        row = op.Unsqueeze(x, constant(op, [2], np.int64))
        return op.Reshape(op.Concat(*[row] * self.groups(x, out), axis=2), shape)

    def wrong(
        self, op: Op, x: Value, axes: Value, wide: Value, shape: Value, out: Value
    ) -> Any:
        row = op.Unsqueeze(x, constant(op, [1], np.int64))
        return op.Reshape(op.Concat(*[row] * self.groups(x, out), axis=1), shape)

    def groups(self, x: Value, out: Value) -> int:
        """Return how often each head is repeated."""
        wide = out.producer()
        assert wide is not None
        expand = wide.inputs[0]
        assert expand is not None
        node = expand.producer()
        assert node is not None
        sizes = node.inputs[1]
        assert sizes is not None
        concat = sizes.producer()
        assert concat is not None
        found = array(concat.inputs[2])
        assert found is not None
        return int(found[0])


@fault(RESNET, 0.5)
@passes.verify.equality
class ShortcutDropped(Planted):
    """The sum of a residual block loses its shortcut."""

    def pattern(self, op: Op, branch: Var, shortcut: Var) -> Var:
        return op.Relu(op.Add(branch, shortcut), _outputs=["out"])

    def right(self, op: Op, branch: Value, shortcut: Value, out: Value) -> Any:
        return op.Max(op.Add(branch, shortcut), constant(op, 0, np.float32))

    def wrong(self, op: Op, branch: Value, shortcut: Value, out: Value) -> Any:
        return op.Max(branch, constant(op, 0, np.float32))


@fault(
    blocks(
        "selections",
        "t# = Mul(x, k)  c# = Greater(x, t#)  y# = Where(c#, x, t#)",
        constants="float k = {3.0}",
    )
)
@passes.verify.equality
class BranchesTurned(Planted):
    """A condition is inverted, and the branches of Where stay as they were."""

    def pattern(self, op: Op, condition: Var, a: Var, b: Var) -> Var:
        return op.Where(condition, a, b, _outputs=["out"])

    def check(self, context: Any, condition: Value, a: Value, b: Value, out: Value) -> bool:
        producer = condition.producer()
        return producer is not None and producer.op_type != "Not"

    def right(self, op: Op, condition: Value, a: Value, b: Value, out: Value) -> Any:
        return op.Where(op.Not(condition), b, a)

    def wrong(self, op: Op, condition: Value, a: Value, b: Value, out: Value) -> Any:
        return op.Where(op.Not(condition), a, b)


@fault(LLAMA, 0.0)
@passes.verify.equality
class DiagonalMasked(Planted):
    """A causal mask by ``<`` becomes one by ``<=``, and a token no longer sees itself."""

    def pattern(self, op: Op, a: Var, b: Var) -> Var:
        return op.Less(a, b, _outputs=["out"])

    def right(self, op: Op, a: Value, b: Value, out: Value) -> Any:
        return op.Greater(b, a)

    def wrong(self, op: Op, a: Value, b: Value, out: Value) -> Any:
        return op.GreaterOrEqual(b, a)


@fault(
    blocks(
        "transposed cubes",
        "t# = Transpose<perm = [1, 0, 2]>(x)  y# = Transpose<perm = [0, 2, 1]>(t#)",
        x="float[4,4,4] x",
        y="float[4,4,4]",
    )
)
@passes.verify.equality
class PermutationsTurned(Planted):
    """Two permutations are composed in the wrong order."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Transpose(op.Transpose(x, _outputs=["inner"]), _outputs=["out"])

    def right(self, op: Op, x: Value, inner: Value, out: Value) -> Any:
        first, second = attribute(inner, "perm"), attribute(out, "perm")
        return op.Transpose(x, perm=[first[axis] for axis in second])

    def wrong(self, op: Op, x: Value, inner: Value, out: Value) -> Any:
        first, second = attribute(inner, "perm"), attribute(out, "perm")
        return op.Transpose(x, perm=[second[axis] for axis in first])
