"""Costs are held against counts made by hand from the operators' definitions."""

import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from onnx_passes.errors import OptionError
from onnx_passes.passes.analysis.cost import Cost, cost_of
from onnx_passes.testing import parse
from tests.tables import each_row


def flops(body, signature="(float[2,8] x) => (float[2,8] y)", **dims):
    return cost_of(parse(f"{signature} {{ {body} }}"), dims).flops


@each_row("""signature | body | expected
- (float[2,3,4] a, float[4,5] b) => (float[2,3,5] y) | y = MatMul(a, b) | =2 * 30 * 4
- (float[4,3] a, float[4,5] b, float[5] c) => (float[3,5] y) | y = Gemm <transA = 1> (a, b, c)
  | =15 * (2 * 4 + 1)
- (float[1,4,8,8] x, float[6,2,3,3] w, float[6] b) => (float[1,6,6,6] y) | y = Conv <group = 2>
  (x, w, b) | =216 * (2 * 2 * 9 + 1)
- (float[1,4,8,8] x, float[4,3,2,2] w) => (float[1,3,9,9] y) | y = ConvTranspose(x, w) | =2 *
  256 * 3 * 4
- (float[1,2,8,8] x) => (float[1,2,4,4] y) | y = MaxPool <kernel_shape = [2, 2], strides = [2,
  2]> (x) | =32 * 4
- (float[2,8] x) => (float[2,8] y) | y = Softmax(x) | =16 * 5
- (float[2,8] x) => (float[2,1] y) | y = ReduceMax(x) | =16
- (float[2,8] x) => (float[8,2] y) | y = Transpose(x) | =0
- (float[2,3] a, float[3,4] b) => (float[2,4] y) | y = Einsum <equation = "ij,jk->ik"> (a, b) |
  =2 * 24
""")
def test_counts_by_definition(signature, body, expected):
    assert flops(body, signature) == expected


def test_recurrent_layers_count_their_gates():
    text = """(float[5,2,3] x, float[1,16,3] w, float[1,16,4] r) => (float[5,1,2,4] y)
    { y = LSTM <hidden_size = 4> (x, w, r) }"""
    sums = 2 * 16 * (3 + 4) + 2 * 16
    assert cost_of(parse(text), {}).flops == 10 * (sums + 4 * 16 + 4 * 4)


def test_dynamic_dimensions_get_sizes_and_are_told_if_not():
    model = parse("(float[N,8] x) => (float[N,8] y) { y = Exp(x) }")
    assert cost_of(model, {"N": 3}).flops == 24
    assert cost_of(model, {"N": 3}).bytes == 2 * 24 * 4
    unsized = cost_of(model, {})
    assert (unsized.flops, len(unsized.missing_flops)) == (0, 1)
    assert [str(d) for d in model.graph.inputs[0].shape] == ["N", "8"]
    with pytest.raises(OptionError, match="cost: no input has a dimension"):
        cost_of(model, {"M": 3})


def test_unknown_operators_are_told_and_not_counted():
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 20, "com.x" : 1]>
        m (float[8] x) => (float[8] y) { t = Exp(x) y = com.x.Magic(t) }""")
    pass_ = Cost()
    pass_(model)
    found = pass_.context.analysis("cost")
    assert found.flops == 8
    assert "com.x::Magic" in found.missing_flops[0]
    assert pass_.context.notes[0].startswith("at least")


def test_functions_are_inlined():
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 20, "l" : 1]>
        m (float[8] x) => (float[8] y) { t = l.F(x) y = l.F(t) }
        <domain: "l", opset_import: ["" : 20]> F (a) => (b) { c = Exp(a) b = Neg(c) }""")
    assert cost_of(model, {}).flops == 32
    assert len(model.functions) == 1


def test_of_the_branches_of_an_if_the_dearer_one_counts():
    body = """y = If(c) <then_branch = t () => (float[8] a) { a = Exp(x) },
        else_branch = e () => (float[8] b) { u = Exp(x) b = Neg(u) }>"""
    assert flops(body, "(bool c, float[8] x) => (float[8] y)") == 16


def loop(count, goes_on):
    body = f"""y = Loop({count}, , x) <body = b (int64 i, bool go, float[8] v)
        => (bool on, float[8] w) {{ on = {goes_on} w = Exp(v) }}>"""
    return f"(float[8] x, bool stop) => (float[8] y) <int64 M = {{7}}> {{ {body} }}"


def test_loops_count_as_often_as_they_run():
    assert cost_of(parse(loop("M", "Identity(go)")), {}).flops == 7 * 8
    uncertain = cost_of(parse(loop("M", "Identity(stop)")), {})
    assert uncertain.flops == 8
    assert uncertain.endless


def test_scans_run_along_their_sequence():
    text = """<ir_version: 10, opset_import: ["" : 20]>
        g (float[4] s, float[6, 4] x) => (float[4] t, float[6, 4] y) {
            t, y = Scan<num_scan_inputs = 1, body = b (float[4] a, float[4] b)
                => (float[4] c, float[4] d) { c = Add(a, b) d = Exp(c) }>(s, x) }"""
    model = onnx.parser.parse_model(text)
    onnx.checker.check_model(model, full_check=True)
    assert cost_of(ir.from_proto(model), {}).flops == 6 * 8


def test_traffic_of_views_and_of_what_picks():
    text = "(float[4,6] x) => (float[2,12] y) <int64[2] s = {2, 12}> { y = Reshape(x, s) }"
    assert cost_of(parse(text), {}).bytes == 0
    text = "(int64[2] i, float[100,6] x) => (float[2,6] y) { y = Gather(x, i) }"
    assert cost_of(parse(text), {}).bytes == 2 * 8 + 2 * 12 * 4


def test_dynamic_dimensions_without_a_size_count_as_one():
    model = parse("(float[N,M,8] x) => (float[N,M,8] y) { y = Relu(x) }")
    cost = Cost(dims={"M": 5})
    assert cost.analyse(model).flops == 40
    assert cost.context.notes[0].endswith(", for N = 1")
