"""Graphs evaluated over any arithmetic: control flow."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.ops.call import constant
from onnx_passes.ops.domains.concrete import ConcreteSemantics
from onnx_passes.ops.domains.reals import RealSemantics
from onnx_passes.ops.domains.rounding_bounds import RoundingSemantics
from onnx_passes.ops.evaluation import evaluate, unknowns
from onnx_passes.ops.semantics import Unsupported

MODEL = """
<ir_version: 10, opset_import: ["" : 21]>
g (float[2] x, float[1] limit) => (float[2] y) {
  two = Constant <value = float[1] {2.0}> ()
  wide = Mul(x, two)
  first = ReduceMax <keepdims = 0> (x)
  large = Less(limit, first)
  y = If (large) <
    then_branch = then () => (float[2] a) <float[1] three = {3.0}> { a = Mul(wide, three) },
    else_branch = else () => (float[2] b) { b = Neg(wide) }>
}
"""


def run(x, limit, semantics):
    graph = ir.from_onnx_text(MODEL).graph
    feeds = {"x": np.float32(x), "limit": np.float32([limit])}
    tensors = {n: constant(a, ir.DataType.FLOAT, semantics) for n, a in feeds.items()}
    return evaluate(graph, tensors, semantics)["y"].data


def test_an_if_gives_what_the_branch_that_it_takes_gives():
    assert run([1, 2], 0, ConcreteSemantics()).tolist() == [6, 12]
    assert run([1, 2], 5, ConcreteSemantics()).tolist() == [-2, -4]


def test_values_of_a_branch_have_rounding_bounds():
    found = run([1 / 3, 2], 0, RoundingSemantics())
    assert found["value"].tolist() == pytest.approx([2, 12])
    assert ((found["error"] > 0) & (found["error"] < 1e-5)).all()


def test_an_if_on_unknowns_is_not_supported():
    graph, semantics = ir.from_onnx_text(MODEL).graph, RealSemantics()
    with pytest.raises(Unsupported, match="If on a condition that is not constant"):
        evaluate(graph, unknowns(graph.inputs, semantics), semantics)
