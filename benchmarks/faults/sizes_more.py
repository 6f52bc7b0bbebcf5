"""More faults that only some sizes show: odd ones, 1, and 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from benchmarks.faults.case import (
    Handwritten,
    Planted,
    constant,
    fault,
    guilty,
    innocent,
)
from benchmarks.faults.models import blocks, feed
from benchmarks.faults.sizes import ints, rows
from onnx_passes import passes
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Value, Var

_ROWS: dict[str, Any] = {"x": "float[N,4] x", "y": "float[M,4]", "count": 6}


@fault(
    blocks(
        "split rows",
        "a#, b# = Split<axis = 0, num_outputs = 2>(x)  n# = Neg(b#)  "
        "y# = Concat<axis = 0>(n#, a#)",
        **_ROWS,
    ),
    "a4",
    feeds=[feed(x=rows(9))],
)
@passes.verify.equality
class SplitRoundedDown(Handwritten):
    """A Split in two becomes two Slices, and the first gets the smaller half."""

    def change(self, model: ir.Model) -> None:
        graph = model.graph
        zero, one, two, last = (
            ir.Value(
                name=f"number_{n}", const_value=ir.tensor([n]), shape=ir.Shape([1]),
                type=ir.TensorType(ir.DataType.INT64),
            )
            for n in (0, 1, 2, 1 << 40)
        )  # fmt: skip
        for value in (zero, one, two, last):
            graph.register_initializer(value)
        for node in [n for n in graph if n.op_type == "Split"]:
            first, second = node.outputs
            size = self.node(graph, node, "Shape", [node.inputs[0]], f"{first.name}_size")
            size.producer().attributes["end"] = ir.AttrInt64("end", 1)
            if not guilty(self.at, first):
                size = self.node(graph, node, "Add", [size, one], f"{first.name}_more")
            half = self.node(graph, node, "Div", [size, two], f"{first.name}_half")
            for old, start, end in ((first, zero, half), (second, half, last)):
                name = f"{old.name}_part"
                new = self.node(graph, node, "Slice", [node.inputs[0], start, end, zero], name)
                old.replace_all_uses_with(new)
            graph.remove(node, safe=True)

    @staticmethod
    def node(graph: ir.Graph, place: ir.Node, op: str, inputs: Any, name: str) -> Any:
        """Insert a node, and return what it computes."""
        node = ir.Node("", op, inputs)
        graph.insert_before(place, node)
        node.outputs[0].name = name
        return node.outputs[0]


@fault(
    blocks(
        "sums over rows",
        "s# = ReduceSum<keepdims = 0>(x, a)  p# = Exp(s#)  y# = Add(p#, s#)",
        x="float[N,4] x",
        y="float[4]",
        count=6,
        constants="int64[1] a = {0}",
    ),
    "s4",
    feeds=[feed(x=np.zeros((0, 4)))],
)
@passes.verify.tolerance
class MeanTimesSize(Planted):
    """A sum becomes a mean times the number of rows, at least 1 to divide by and multiply."""

    def pattern(self, op: Op, x: Var, axes: Var) -> Var:
        return op.ReduceSum(x, axes, _outputs=["out"])

    def check(self, context: Any, x: Value, axes: Value, out: Value) -> bool:
        return x.is_graph_input()

    def right(self, op: Op, x: Value, axes: Value, out: Value) -> Any:
        ones = op.Unsqueeze(op.ConstantOfShape(op.Shape(x, start=0, end=1)), ints(op, 0))
        weights = op.Add(ones, constant(op, 1, np.float32))
        return op.Squeeze(op.MatMul(weights, x), axes)

    def wrong(self, op: Op, x: Value, axes: Value, out: Value) -> Any:
        ones = op.Unsqueeze(op.ConstantOfShape(op.Shape(x, start=0, end=1)), ints(op, 0))
        weights = op.Add(ones, constant(op, 1, np.float32))
        size = op.CastLike(op.Shape(x, start=0, end=1), x)
        return op.Mul(op.Div(op.Squeeze(op.MatMul(weights, x), axes), size), size)


@fault(
    blocks(
        "pairs",
        "e# = Slice(x, o, l, a, t)  y# = Sin(e#)",
        constants="int64[1] o = {1}, int64[1] l = {1000000}, int64[1] a = {0}, "
        "int64[1] t = {2}",
        **_ROWS,
    ),
    "e4",
    feeds=[feed(x=rows(5))],
)
@passes.verify.equality
class EverySecond(Planted):
    """Every second row is read by indices, and their number is rounded up."""

    def pattern(self, op: Op, x: Var, start: Var, end: Var, axes: Var, step: Var) -> Var:
        return op.Slice(x, start, end, axes, step, _outputs=["out"])

    def indexed(self, op: Op, x: Value, extra: int) -> Any:
        """Gather rows 1, 3, 5 and so on; what is beyond the last counts as the last."""
        size = op.Shape(x, start=0, end=1)
        count = op.Div(op.Add(size, ints(op, extra)), ints(op, 2))
        scalar = [op.Squeeze(v) for v in (ints(op, 0), count, ints(op, 1))]
        indices = op.Add(op.Mul(op.Range(*scalar), ints(op, 2)), ints(op, 1))
        return op.Gather(x, op.Min(indices, op.Sub(size, ints(op, 1))), axis=0)

    def right(self, op: Op, x: Value, out: Value, **values: Value) -> Any:
        return self.indexed(op, x, 0)

    def wrong(self, op: Op, x: Value, out: Value, **values: Value) -> Any:
        return self.indexed(op, x, 1)


@fault(
    blocks(
        "gates by rows",
        "g# = Mul(x, z)  y# = Tanh(g#)",
        x="float[A,4] x, float[B,4] z",
        y="float[C,4]",
        count=6,
    ),
    "g4",
    feeds=[feed(x=rows(1), z=rows(3))],
)
@passes.verify.equality
class ShapeOfFirst(Planted):
    """A product of two inputs gets the shape of the first, which may have one row only."""

    def pattern(self, op: Op, x: Var, z: Var) -> Var:
        return op.Mul(x, z, _outputs=["out"])

    def check(self, context: Any, x: Value, z: Value, out: Value) -> bool:
        return x.name == "x"

    def right(self, op: Op, x: Value, z: Value, out: Value) -> Any:
        return op.Mul(z, x)

    def wrong(self, op: Op, x: Value, z: Value, out: Value) -> Any:
        count = op.Shape(x, start=0, end=1)
        return op.Slice(op.Mul(z, x), ints(op, 0), count, ints(op, 0))


@fault(
    blocks(
        "blocks of eleven",
        "n# = Neg(x)  y# = Exp(n#)",
        x="float[4,L] x",
        y="float[4,M]",
        count=6,
    ),
    "n4",
    feeds=[feed(x=np.linspace(-1, 1, 52).reshape(4, 13))],
)
@passes.verify.equality
class TailDropped(Planted):
    """A Neg is computed in two blocks, what is beyond 6 columns only in pairs."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Neg(x, _outputs=["out"])

    def right(self, op: Op, x: Value, out: Value) -> Any:
        return self.blocks(op, x, op.Shape(x, start=1, end=2))

    def wrong(self, op: Op, x: Value, out: Value) -> Any:
        size = op.Shape(x, start=1, end=2)
        rest = op.Max(op.Sub(size, ints(op, 6)), ints(op, 0))
        odd = op.Mod(rest, ints(op, 2))
        return self.blocks(op, x, op.Sub(size, odd))

    def blocks(self, op: Op, x: Value, end: Any) -> Any:
        """Compute the first 6 columns, then those up to an end."""
        minus = constant(op, -1, np.float32)
        first = op.Slice(x, ints(op, 0), ints(op, 6), ints(op, 1))
        rest = op.Slice(x, ints(op, 6), end, ints(op, 1))
        return op.Concat(op.Mul(first, minus), op.Mul(rest, minus), axis=1)


@innocent(blocks("rows in reverse", "r# = Sin(x)  t# = Abs(r#)  y# = Exp(t#)", **_ROWS))
@passes.verify.equality
class ReversedTwice(Transformation, RewriteRulePass):
    """Compute an Abs on the rows in reverse order, and turn them back."""

    def pattern(self, op: Op, x: Var) -> Var:
        return op.Abs(x)

    def rewrite(self, op: Op, x: Value) -> Any:
        turned = self.turn(op, x)
        return self.turn(op, op.Max(turned, op.Neg(turned)))

    def turn(self, op: Op, x: Any) -> Any:
        """Reverse the rows of a value."""
        end = constant(op, [-(1 << 40)], np.int64)
        return op.Slice(x, ints(op, -1), end, ints(op, 0), ints(op, -1))
