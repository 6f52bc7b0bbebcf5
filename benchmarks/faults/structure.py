"""Nodes merged, shared or removed that should not have been."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from benchmarks.faults.case import (
    EVERYWHERE,
    Planted,
    Unguarded,
    array,
    constant,
    fault,
    known,
)
from benchmarks.faults.models import blocks
from onnx_passes import passes
from onnx_passes.passes.base import Op, Value, Var


class _Merged(Unguarded):
    """Merge the two operands of a difference if they are one computation."""

    def sound(self, **values: Value) -> bool:
        a, b = (values[name].producer() for name in "ab")
        assert a is not None
        assert b is not None
        return {k: v.value for k, v in a.attributes.items()} == {
            k: v.value for k, v in b.attributes.items()
        }

    def applies(self, **values: Value) -> bool:
        return values["a"] is not values["b"]

    def rewrite(self, op: Op, x: Value, a: Value, b: Value, out: Value) -> Any:
        return op.Sub(a, a)


@fault(
    blocks(
        "two slopes",
        "a# = LeakyRelu<alpha = 0.25>(x)  b# = LeakyRelu<alpha = 0.25>(x)  y# = Sub(a#, b#)",
        odd=("b# = LeakyRelu<alpha = 0.25>", "b# = LeakyRelu<alpha = 0.5>"),
    ),
    "y5",
)
@passes.verify.equality
class AttributesIgnored(_Merged):
    """Nodes are merged as common subexpressions though an attribute differs."""

    def pattern(self, op: Op, x: Var) -> Var:
        a, b = op.LeakyRelu(x, _outputs=["a"]), op.LeakyRelu(x, _outputs=["b"])
        return op.Sub(a, b, _outputs=["out"])


@fault(
    blocks(
        "seeded noise",
        "a# = RandomNormalLike<seed = 1.0>(x)  b# = RandomNormalLike<seed = 1.0>(x)  "
        "y# = Sub(a#, b#)",
        odd=("b# = RandomNormalLike<seed = 1.0>", "b# = RandomNormalLike<seed = 2.0>"),
    ),
    "y5",
)
@passes.verify.equality
class SeedsIgnored(_Merged):
    """Random numbers of two seeds are merged."""

    def pattern(self, op: Op, x: Var) -> Var:
        a, b = op.RandomNormalLike(x, _outputs=["a"]), op.RandomNormalLike(x, _outputs=["b"])
        return op.Sub(a, b, _outputs=["out"])


@fault(
    blocks(
        "noise",
        "a# = RandomNormalLike(x)  b# = RandomNormalLike(x)  y# = Sub(a#, b#)",
    ),
    EVERYWHERE,
    needs="strict",
)
@passes.verify.equality
class NoiseMerged(_Merged):
    """Random numbers without a seed are merged."""

    def pattern(self, op: Op, x: Var) -> Var:
        a, b = op.RandomNormalLike(x, _outputs=["a"]), op.RandomNormalLike(x, _outputs=["b"])
        return op.Sub(a, b, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        return False


@fault(
    blocks(
        "scaled twice",
        "t# = Mul(x, k)  y# = Mul(t#, k)",
        constants="float k = {3}, float l = {5}",
        odd=("Mul(x, k)", "Mul(x, l)"),
    ),
    "y5",
)
@passes.verify.tolerance
class ConstantShared(Unguarded):
    """Two matches share one new constant, because it has one name."""

    def pattern(self, op: Op, x: Var, a: Var, b: Var) -> Var:
        return op.Mul(op.Mul(x, a), b, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        return bool(known(values["a"]) == 3)

    def rewrite(self, op: Op, x: Value, a: Value, b: Value, out: Value) -> Any:
        # A cache by name, as of a rule that calls op.initializer(..., name="scale").
        cache = self.state_dict.setdefault("scales", {})
        scale = cache.setdefault("scale", known(a) * known(b))
        return op.Mul(x, constant(op, scale))


@fault(
    blocks(
        "conditions",
        "t# = Neg(x)  y# = Where(yes, x, t#)",
        x="float[4,4] x, bool[4,4] some",
        constants="bool[1] yes = {1}",
        odd=("Where(yes, x, t#)", "Where(some, x, t#)"),
    ),
    "y5",
)
@passes.verify.equality
class LiveBranchRemoved(Unguarded):
    """A branch is removed as dead though its condition is an input."""

    def pattern(self, op: Op, condition: Var, x: Var, y: Var) -> Var:
        return op.Where(condition, x, y, _outputs=["out"])

    def sound(self, **values: Value) -> bool:
        return array(values["condition"]) is not None

    def rewrite(self, op: Op, condition: Value, x: Value, y: Value, out: Value) -> Any:
        return op.Identity(x)


@fault(
    blocks(
        "branches",
        "y# = If(no) <then_branch = then# () => (float[4,4] p#) { p# = Exp(x) }, "
        "else_branch = else# () => (float[4,4] q#) { q# = Abs(x) }>",
        constants="bool no = {0}",
    )
)
@passes.verify.equality
class BranchTaken(Planted):
    """The wrong branch of an If is inlined."""

    def pattern(self, op: Op, condition: Var) -> Var:
        return op.If(condition, _outputs=["out"])

    def take(self, op: Op, out: Value, name: str) -> Any:
        """Write the one node of a branch outside of it."""
        producer = out.producer()
        assert producer is not None
        graph: ir.Graph = producer.attributes[name].as_graph()
        (node,) = list(graph)
        return getattr(op, node.op_type)(*node.inputs)

    def right(self, op: Op, condition: Value, out: Value) -> Any:
        return self.take(op, out, "then_branch" if known(condition) else "else_branch")

    def wrong(self, op: Op, condition: Value, out: Value) -> Any:
        return self.take(op, out, "else_branch" if known(condition) else "then_branch")


@fault(
    blocks(
        "lower triangles",
        "t# = Trilu<upper = 0>(x, k)  y# = Mul(t#, x)",
        constants="int64 k = {0}",
    )
)
@passes.verify.equality
class TriangleTurned(Planted):
    """A lower triangle becomes an upper one, Trilu's default."""

    def pattern(self, op: Op, x: Var, k: Var) -> Var:
        return op.Trilu(x, k, _outputs=["out"])

    def check(self, context: Any, x: Value, k: Value, out: Value) -> bool:
        return array(x) is None

    def masked(self, op: Op, x: Value, upper: int) -> Any:
        """Cut out a triangle by a constant mask."""
        ones = np.triu(np.ones((4, 4), bool)) if upper else np.tril(np.ones((4, 4), bool))
        return op.Where(constant(op, ones), x, constant(op, 0, np.float32))

    def right(self, op: Op, x: Value, k: Value, out: Value) -> Any:
        return self.masked(op, x, 0)

    def wrong(self, op: Op, x: Value, k: Value, out: Value) -> Any:
        return self.masked(op, x, 1)


@fault(
    blocks(
        "pixel shuffles",
        't# = DepthToSpace<blocksize = 2, mode = "CRD">(x)  '
        "y# = ReduceSum<keepdims = 0>(t#, a)",
        x="float[1,8,2,2] x",
        y="float[1,4,4]",
        constants="int64[1] a = {1}",
    )
)
@passes.verify.tolerance
class ShuffleMode(Planted):
    """DepthToSpace is written out in the order of its other mode."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.DepthToSpace(x, _outputs=["out"])

    def shuffled(self, op: Op, x: Value, split: list[int], perm: list[int]) -> Any:
        """Reshape, transpose and reshape."""
        parts = op.Reshape(x, constant(op, split, np.int64))
        turned = op.Transpose(parts, perm=perm)
        return op.Reshape(turned, constant(op, [1, 2, 4, 4], np.int64))

    def right(self, op: Op, x: Value, out: Value) -> Any:
        return self.shuffled(op, x, [1, 2, 2, 2, 2, 2], [0, 1, 4, 2, 5, 3])

    def wrong(self, op: Op, x: Value, out: Value) -> Any:
        return self.shuffled(op, x, [1, 2, 2, 2, 2, 2], [0, 3, 4, 1, 5, 2])
