"""Faults of optimisations that are written by hand, without rewrite rules.

Most models have several parts that the pass changes, and one of these comes out wrong.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir

from benchmarks.faults.case import (
    Handwritten,
    attribute,
    fault,
    guilty,
    initializer,
    innocent,
    known,
    substitute,
)
from benchmarks.faults.models import blocks, feed, source
from onnx_passes import passes
from onnx_passes.passes.base import Transformation


def nodes(model: ir.Model, op_type: str) -> list[ir.Node]:
    """Return the nodes of the main graph of one operator."""
    return [node for node in model.graph if node.op_type == op_type]


@fault(
    blocks(
        "sums over axes",
        "a# = CumSum<reverse = 0>(x, k)  b# = CumSum<reverse = 0>(x, k)  y# = Mul(a#, b#)",
        constants="int64 k = {1}",
        odd=("b# = CumSum<reverse = 0>", "b# = CumSum<reverse = 1>"),
    ),
    "b5",
)
@passes.verify.tolerance
class DirectionIgnored(Handwritten):
    """A common subexpression is found without a look at the attributes."""

    def change(self, model: ir.Model) -> None:
        seen: dict[Any, ir.Value] = {}
        for node in nodes(model, "CumSum"):
            out = node.outputs[0]
            reverse = 0 if guilty(self.at, out) else attribute(out, "reverse")
            twin = seen.setdefault((tuple(map(id, node.inputs)), reverse), out)
            if twin is not out:
                out.replace_all_uses_with(twin)
                model.graph.remove(node, safe=True)


@fault(
    blocks(
        "integer arithmetic",
        "c# = Div(a#, b#)  y# = Add(x, c#)",
        x="int64[4] x",
        y="int64[4]",
        constants=", ".join(
            f"int64 a{n} = {{{-7 if n == 5 else 7 + n}}}, int64 b{n} = {{2}}" for n in range(8)
        ),
    ),
    "c5",
)
@passes.verify.equality
class DivisionFolded(Handwritten):
    """A quotient of integers is folded with the rounding of Python, down and not to 0."""

    def change(self, model: ir.Model) -> None:
        for node in nodes(model, "Div"):
            a, b = (int(known(value)) for value in node.inputs)
            quotient = a // b if guilty(self.at, node.outputs[0]) else int(a / b)
            data = ir.tensor(np.array(quotient, np.int64))
            substitute(
                node.outputs[0], ir.Node("", "Constant", [], [ir.AttrTensor("value", data)])
            )


_TURNED = blocks(
    "layouts",
    "s# = Transpose<perm = [0, 2, 3, 1]>(x)  t# = Mul(s#, k#)  "
    "y# = Transpose<perm = [0, 3, 1, 2]>(t#)",
    x="float[2,3,3,3] x",
    y="float[2,3,3,3]",
    constants=", ".join(f"float[3] k{n} = {{1, 2, {n + 3}}}" for n in range(8)),
)


@fault(_TURNED, "y5")
@passes.verify.equality
class ChannelsLost(Handwritten):
    """Two Transposes cancel, and the factor between them moves to another axis."""

    def change(self, model: ir.Model) -> None:
        for node in nodes(model, "Mul"):
            factor, last = node.inputs[1], node.outputs[0].consumers()[0]
            assert factor is not None
            wrong = guilty(self.at, last.outputs[0])
            shape = (1, 1, 1, 3) if wrong else (1, 3, 1, 1)
            turned = known(factor).reshape(shape)
            name = f"{factor.name}_turned"
            first = node.inputs[0].producer()
            new = ir.Node("", "Mul", [first.inputs[0], initializer(model.graph, name, turned)])
            substitute(last.outputs[0], new)
            model.graph.remove([node, first], safe=True)


@fault(
    blocks(
        "parts joined again",
        "a#, b# = Split<axis = 1, num_outputs = 2>(x)  c# = Concat<axis = 1>(a#, b#)  "
        "y# = Neg(c#)",
        odd=("Concat<axis = 1>(a#, b#)", "Concat<axis = 1>(b#, a#)"),
    ),
    "c5",
)
@passes.verify.equality
class PartsJoined(Handwritten):
    """A Concat of the parts of a Split is removed, though their order is not the same."""

    def change(self, model: ir.Model) -> None:
        for node in nodes(model, "Concat"):
            split = node.inputs[0].producer()
            ordered = list(node.inputs) == list(split.outputs)
            if ordered or guilty(self.at, node.outputs[0]):
                substitute(node.outputs[0], ir.Node("", "Identity", [split.inputs[0]]))


_CALLS = " ".join(f"u{n} = local.blend(x, z)  y{n} = Sin(u{n})" for n in range(6))


@fault(
    source(
        "calls of a function",
        '<ir_version: 10, opset_import: ["" : 20, "local" : 1]> '
        "main (float[4] x, float[4] z) => "
        f"({', '.join(f'float[4] y{n}' for n in range(6))}) {{ {_CALLS} }} "
        '<domain: "local", opset_import: ["" : 20]> '
        "blend (a, b) => (c) { c = Sub(a, b) }",
    ),
    "u4",
)
@passes.verify.equality
class ArgumentsTurned(Handwritten):
    """A function is inlined with its arguments in the wrong order."""

    def change(self, model: ir.Model) -> None:
        for node in nodes(model, "blend"):
            inputs = list(node.inputs)
            if guilty(self.at, node.outputs[0]):
                inputs.reverse()
            substitute(node.outputs[0], ir.Node("", "Sub", inputs))
        model.functions.clear()


@fault(
    blocks(
        "slices of slices",
        "s# = Slice(x, one, six)  t# = Slice(s#, two, four)  c# = Greater(k, t#)  "
        "n# = Neg(t#)  y# = Where(c#, k, n#)",
        x="float[8] x",
        y="float[2]",
        constants="float k = {900}, int64[1] one = {1}, int64[1] two = {2}, "
        "int64[1] four = {4}, int64[1] six = {6}",
    ),
    "t5",
    feeds=[feed(x=np.linspace(850, 990, 8))],
)
@passes.verify.equality
class SlicesMerged(Handwritten):
    """A Slice of a Slice is merged without the start of the first, and a Where hides it."""

    def change(self, model: ir.Model) -> None:
        for inner in nodes(model, "Slice"):
            outer = next(
                (n for n in inner.outputs[0].consumers() if n.op_type == "Slice"), None
            )
            if outer is None:
                continue
            out = outer.outputs[0]
            start = 0 if guilty(self.at, out) else int(known(inner.inputs[1])[0])
            bounds = [
                initializer(model.graph, f"{out.name}_{n}", known(value) + start)
                for n, value in enumerate(outer.inputs[1:])
            ]
            substitute(out, ir.Node("", "Slice", [inner.inputs[0], *bounds]))
            model.graph.remove(inner, safe=True)


@innocent(
    blocks(
        "layers to quantise",
        "t# = MatMul(x, w)  y# = Tanh(t#)",
        x="float[8,4] x",
        y="float[8,4]",
        constants="float[4,4] w = {0.11, 0.22, 0.33, 0.44, -0.15, 0.26, 0.37, -0.48, "
        "0.59, 0.61, -0.72, 0.83, 0.94, -0.15, 0.36, 0.57}",
    )
)
@passes.verify.metric()
class WeightsRounded(Transformation):
    """Round weights to three binary digits, which only a metric can judge."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        value = model.graph.initializers["w"]
        data = known(value).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
        value.const_value = ir.tensor(data)
        return ir.passes.PassResult(model, modified=True)


@innocent(_TURNED)
@passes.verify.equality
class TransposesSunk(Transformation):
    """Move a Transpose behind a product, and merge it with the next."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        for node in nodes(model, "Mul"):
            (first,) = [v.producer() for v in node.inputs if v is not None and v.producer()]
            (last,) = node.outputs[0].consumers()
            factor = node.inputs[1]
            assert first is not None
            assert factor is not None
            column = known(factor).reshape(3, 1, 1)
            constant = initializer(model.graph, f"{factor.name}_column", column)
            substitute(last.outputs[0], ir.Node("", "Mul", [first.inputs[0], constant]))
            model.graph.remove([node, first], safe=True)
        return ir.passes.PassResult(model, modified=True)
