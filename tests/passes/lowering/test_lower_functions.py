import numpy as np
import pytest

from onnx_passes import testing
from onnx_passes.errors import OptionError
from onnx_passes.model.walk import all_nodes
from onnx_passes.passes.lowering.lower_functions import LowerFunctions
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from tests.tables import each_of, each_row, outputs_of, pass_cases

FORMULAS = [
    *["Celu<alpha = 2.0>(x)", "Elu<alpha = 2.0>(x)", "Selu(x)", "Softsign(x)", "PRelu(x, x)"],
    *["ThresholdedRelu<alpha = 0.5>(x)", "Shrink<bias = 0.1, lambd = 0.5>(x)"],
    *["MeanVarianceNormalization<axes = [0, 1]>(x)", "HardSwish(x)", "LogSoftmax(x)"],
]


@each_of("opset", 18, 20)
@each_of("call", *FORMULAS)
def test_fires(call, opset, rewrites):
    operator = call.partition("(")[0].partition("<")[0]
    text = f"""<ir_version: 9, opset_import: ["" : {opset}]> g (float[N,3] x)
    => (float[N,3] y) {{ y = {call} }}"""
    model = rewrites(LowerFunctions(operators=(operator,)), text)
    assert operator not in {node.op_type for node in model.graph}


@each_of("operator", "ReduceL1", "ReduceL2", "ReduceLogSumExp")
def test_fires_on_reductions(operator, rewrites):
    text = f"(float[N,3] x) => (float[N,1] y) <int64[1] a = {{1}}> {{ y = {operator}(x, a) }}"
    rewrites(text)


def test_what_a_definition_brings_in_is_lowered_too():
    model = testing.parse("(float[3] x) => (float[3] y) { y = Celu(x) }")
    LowerFunctions(operators=("Celu", "Elu"))(model)
    assert not {"Celu", "Elu"} & {node.op_type for node in model.graph}


def test_fires_in_a_branch(rewrites):
    model = rewrites("""(float[2] x, bool c) => (float[2] y) {
        y = If(c) <then_branch = then () => (float[2] p) { p = Selu(x) },
          else_branch = other () => (float[2] q) { q = Identity(x) }> }""")
    assert "Selu" not in {node.op_type for node in all_nodes(model)}


test_cases = pass_cases("""
by default all are lowered but what gets no simpler: (int64 x, int64 d) => (int64[N] y) <int64
  z = {0}> { y = Range(z, x, d) }
(int64[2] x) => (int64 y) { y = ReduceLogSum<keepdims = 0>(x) }
(uint8[2] x) => (uint8[2] y) { y = Shrink(x) }
a celu that changes positive numbers is left alone: (float[2] x) => (float[2] y) { y =
  Celu<alpha = -0.5>(x) }
(double[N,3] x) => (double[N,1] y) <int64[1] a = {1}> { y = ReduceL2(x, a) }
(double[N] x) => (double[N] y) { y = Shrink<lambd = 1.0>(x) }
""")


@each_row("""text
not-asked-for: (float[2] x) => (float[2] y) { y = Relu(x) }
defined-for-later-opsets-only: <ir_version: 8, opset_import: ["" : 13]> g (float[2] x)
  => (float[2] y) { y = Selu(x) }
in-a-function: <ir_version: 10, opset_import: ["" : 20, "l" : 1]> main (float[2] x)
  => (float[2] y) { y = l.f(x) } <domain: "l", opset_import: ["" : 20]> f (x) => (y) {
  y = Selu(x) }
""")
def test_leaves_alone(text, leaves_alone):
    model = leaves_alone(LowerFunctions(operators=("Selu",)), text)
    assert all(not node.attributes for node in all_nodes(model)), "no default is written down"


def test_a_name_that_onnx_defines_by_no_function_is_refused():
    with pytest.raises(OptionError, match="'Sellu'") as caught:
        LowerFunctions(operators=("Sellu",))
    assert "did you mean 'Selu'" in str(caught.value.help)


def test_names_of_values_around_stay(rewrites):
    text = """(float[2] x, float[2] alpha) => (float[2] y) {
    t = Celu(x) u = Celu(alpha) y = Add(t, u) }"""
    assert [value.name for value in rewrites(text).graph.inputs] == ["x", "alpha"]


@each_of("operator", "L1", "L2", "LogSumExp", "SumSquare")
def test_sums_of_integers_that_saturate_are_left_alone(operator, leaves_alone):
    text = "(int32[2] x) => (int32 y) { y = Reduce" + operator + "<keepdims = 0>(x) }"
    leaves_alone(text)


@each_of("dtype, opset, put_in", ("float16", 18, 0), ("float", 18, 1))
def test_a_definition_of_inconsistent_types_is_not_put_in(dtype, opset, put_in):
    """That of MeanVarianceNormalization adds a float32 to whatever it is given."""
    model = testing.parse(f"""<ir_version: 9, opset_import: ["" : {opset}]>
        g ({dtype}[2,3,4,4] x) => ({dtype}[2,3,4,4] y)
        {{ y = MeanVarianceNormalization(x) }}""")
    assert LowerFunctions()(model).modified == bool(put_in)


@each_of("sizes", [2, 3, 4, 5], [2, 3, 4, 5, 6])
@each_of("align, given", (0, True), (0, False), (1, False))
def test_an_affine_grid_of_known_rank_runs_with_all_optimisations(sizes, align, given):
    """Its definition has branches for both ranks, and a Range of tensors of one element."""
    rank, count = len(sizes) - 2, len(sizes)
    dims = ",".join(map(str, [sizes[0], *sizes[2:], rank]))
    s = f"int64[{count}] s"
    model = testing.parse(f"""<ir_version: 10, opset_import: ["" : 20]>
        g (float[2,{rank},{rank + 1}] x{f", {s}" if given else ""}) => (float[{dims}] y)
        {"" if given else f"<{s} = {{{', '.join(map(str, sizes))}}}>"}
        {{ y = AffineGrid<align_corners = {align}>(x, s) }}""")
    x = np.arange(2 * rank * (rank + 1), dtype=np.float32).reshape(2, rank, rank + 1)
    feeds = {"x": x, **({"s": np.array(sizes, np.int64)} if given else {})}
    engine = OnnxRuntimeEngine(optimization="all")
    expected = outputs_of(engine, model, feeds)["y"]
    assert LowerFunctions(operators=("AffineGrid",))(model).modified
    with engine.prepare(model) as session:
        np.testing.assert_allclose(session.run(feeds)["y"], expected, 1e-5, 1e-5)


@each_of("given", True, False)
def test_an_affine_grid_of_one_pixel_with_corners_is_not_divided_by_0(given, leaves_alone):
    declared = ("x, int64[4] s", "") if given else ("x", "<int64[4] s = {2, 3, 4, 1}>")
    leaves_alone(
        LowerFunctions(operators=("AffineGrid",)),
        f"""<ir_version: 10, opset_import: ["" : 20]>
        g (float[2,2,3] {declared[0]}) => (float[2,h,w,2] y) {declared[1]}
        {{ y = AffineGrid<align_corners = 1>(x, s) }}""",
    )


NORMALIZED = "(float[2,4] x, float[4] s) => (float[2,4] y) { y = LayerNormalization(x, s) }"


def test_a_definition_that_loses_digits_is_only_put_in_if_it_is_named(leaves_alone, rewrites):
    leaves_alone(NORMALIZED)
    model = rewrites(LowerFunctions(operators=("LayerNormalization",)), NORMALIZED)
    assert "LayerNormalization" not in {node.op_type for node in all_nodes(model)}


@each_row("""dims | axis | scale | put_in
whole: 2,3,4 | =1 | 3,4 | =1
whole-by-name: N,M,4 | =1 | M,4 | =1
whole-by-size: N,M,4 | =1 | 3,4 | =1
one-number: N,M,4 | =1 | 1,1 | =1
more-axes: N,M,4 | =-1 | 1,1,4 | =1
one-axis: N,M,K | =-1 | L | =1
some-axes: N,M,4 | =1 | 1,4 | =0
fewer-axes: N,M,4 | =1 | 4 | =0
another-axis: 2,M,4 | =-1 | 2,1,4 | =0
unknown: N,M,4 | =1 | L,4 | =0
""")
def test_a_scale_that_is_broadcast_over_some_axes_does_not_fit(dims, axis, scale, put_in):
    """The definition makes a row of it, which does not fit the rows that are normalised."""
    model = testing.parse(f"""(float[{dims}] x, float[{scale}] s, float[{scale}] b)
    => (float[{dims}] y, float[A,B,C] m) {{
    y, m = LayerNormalization<axis = {axis}>(x, s, b) }}""")
    assert LowerFunctions(operators=("LayerNormalization",))(model).modified == bool(put_in)


@each_row("""dims | attribute | put_in
- N,3,H | <axes = [0, 1]> | =1
- N,M,2 | <axes = [-1, 0]> | =1
- 2,M,H,W | ='' | =1
- N,3,H | <axes = [0, 2]> | =0
- N,3,1 | <axes = [2]> | =0
- N,3,H,W | ='' | =0
""")
def test_what_may_be_normalised_alone_is_left_alone(dims, attribute, put_in):
    """ONNX Runtime divides by the deviation 0, and the definition by a little more."""
    model = testing.parse(f"""(float[{dims}] x) => (float[{dims}] y)
        {{ y = MeanVarianceNormalization{attribute}(x) }}""")
    assert LowerFunctions()(model).modified == bool(put_in)


def test_a_normalization_of_nothing_keeps_its_shape(rewrites):
    """The definition makes a matrix, and a shape with a 0 would copy a size of that."""
    text = """(float[N,S,4] x, float[4] s) => (float[N,S,4] y, float[N,S,1] m)
    { y, m = LayerNormalization(x, s) }"""
    feeds = [
        {"x": np.zeros(sizes, np.float32), "s": np.ones(4, np.float32)}
        for sizes in ((0, 3, 4), (2, 0, 4), (0, 0, 4), (2, 3, 4))
    ]
    rewrites(LowerFunctions(operators=("LayerNormalization",)), text, feeds=feeds)
