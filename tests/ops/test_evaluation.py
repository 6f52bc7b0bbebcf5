"""Graphs evaluated over any arithmetic: control flow."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.certifying.replay import EngineFailure, run_once
from onnx_passes.ops.call import constant
from onnx_passes.ops.domains.concrete import ConcreteSemantics
from onnx_passes.ops.domains.reals import RealSemantics
from onnx_passes.ops.evaluation import evaluate, unknowns
from onnx_passes.ops.semantics import Misfit, Unsupported
from tests.tables import each_of

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


def test_an_if_on_unknowns_is_not_supported():
    graph, semantics = ir.from_onnx_text(MODEL).graph, RealSemantics()
    with pytest.raises(Unsupported, match="If on a condition that is not constant"):
        evaluate(graph, unknowns(graph.inputs, semantics), semantics)


BODIES = """
<ir_version: 10, opset_import: ["" : 21]>
g (float[3,2] x, int64 trips, bool go)
=> (float[2] last, float[n,2] seen, float[2] sum, float[3,2] sums) {
  start = Constant <value = float[2] {1.0, -1.0}> ()
  last, seen = Loop (trips, go, start) <
    body = doubled (int64 i, bool c, float[2] a) => (bool d, float[2] b, float[2] e) {
      two = Constant <value = float[1] {2.0}> ()
      b = Mul(a, two)
      first = ReduceMax <keepdims = 0> (b)
      limit = Constant <value = float {9.0}> ()
      d = Less(first, limit)
      e = Identity(a)
    }>
  sum, sums = Scan (start, x) <
    num_scan_inputs = 1, scan_input_directions = [1],
    body = added (float[2] a, float[2] row) => (float[2] b, float[2] e) {
      b = Add(a, row)
      e = Identity(b)
    }>
}
"""


@each_of("trips, go", (3, True), (9, True), (1, True))
def test_loops_and_scans_give_what_the_engine_does(trips, go):
    model = ir.from_onnx_text(BODIES)
    feeds = {
        "x": np.float32([[1, 2], [3, 4], [5, 7]]),
        "trips": np.array(trips, np.int64),
        "go": np.array(go),
    }
    expected = run_once(model, feeds)
    assert not isinstance(expected, EngineFailure), expected
    semantics = ConcreteSemantics()
    types = {value.name: value.dtype for value in model.graph.inputs}
    tensors = {n: constant(a, types[n], semantics) for n, a in feeds.items()}
    found = evaluate(model.graph, tensors, semantics)
    for value, array in zip(model.graph.outputs, expected, strict=True):
        assert found[value.name].data.tolist() == array.tolist()


def test_a_loop_that_may_end_at_any_trip_is_not_supported():
    graph, semantics = ir.from_onnx_text(BODIES).graph, RealSemantics()
    feeds = {
        "trips": constant(np.array(3), ir.DataType.INT64, semantics),
        **unknowns([v for v in graph.inputs if v.name != "trips"], semantics),
    }
    with pytest.raises(Unsupported, match="Loop on a condition that is not constant"):
        evaluate(graph, feeds, semantics)


@each_of("node", "ScatterND(x, i, u)", "GatherND(x, i)")
def test_a_number_has_no_axis_for_rows_of_indices(node):
    graph = ir.from_onnx_text(
        f"""<ir_version: 10, opset_import: ["" : 21]> g (float x, float u) => (float y)
        <int64[1, 0] i = {{}}> {{ y = {node} }}"""
    ).graph
    semantics = RealSemantics()
    with pytest.raises(Misfit, match="has no axis"):
        evaluate(graph, unknowns(graph.inputs, semantics), semantics)
