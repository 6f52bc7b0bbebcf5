"""What ONNX Runtime knows as a whole is still there behind the passes that take it apart."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime

from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.eliminate.eliminate_noop_arithmetic import EliminateNoopArithmetic
from onnx_passes.passes.fusion.merge_projections import MergeProjections
from onnx_passes.passes.fusion.move_scale_to_matmul import MoveScaleToMatmul
from tests.tables import each_of, model_of

NORMALIZED = """m{n} = ReduceMean<axes = [-1]>({x}) d{n} = Sub({x}, m{n}) q{n} = Pow(d{n}, two)
    v{n} = ReduceMean<axes = [-1]>(q{n}) e{n} = Add(v{n}, epsilon) r{n} = Sqrt(e{n})
    z{n} = Div(d{n}, r{n}) g{n} = Mul(z{n}, ones) {y} = Add(g{n}, bias)"""
HEADS = """p{n} = MatMul(h, w{n}) a{n} = Add(p{n}, bias) s{n} = Reshape(a{n}, parted)
    t{n} = Transpose<perm = [0, {perm}]>(s{n})"""
BERT = f"""<ir_version: 6, opset_import: ["" : {{opset}}]>
    m (float[B,S,8] x, int64[B,S] mask) => (float[B,S,8] y)
      <int64[4] parted = {{{{0, 0, 2, 4}}}}, int64[3] joined = {{{{0, 0, 8}}}},
      float two = {{{{2}}}}, float one = {{{{1}}}},
      float epsilon = {{{{1e-12}}}}, float low = {{{{-10000}}}}, float root = {{{{2}}}}> {{{{
    {NORMALIZED.format(n="0", x="x", y="h")}
    {HEADS.format(n="q0", perm="2, 1, 3")} {HEADS.format(n="k0", perm="2, 3, 1")}
    {HEADS.format(n="u0", perm="2, 1, 3")}
    i = Unsqueeze<axes = [1]>(mask) j = Unsqueeze<axes = [2]>(i) k = Cast<to = 1>(j)
    l = Sub(one, k) hidden = Mul(l, low)
    scores = MatMul(tq0, tk0) scaled = Div(scores, root) masked = Add(scaled, hidden)
    weights = Softmax<axis = 3>(masked) heads = MatMul(weights, tu0)
    back = Transpose<perm = [0, 2, 1, 3]>(heads) flat = Reshape(back, joined)
    out = MatMul(flat, wo0) b = Add(out, bias) c = Add(b, h)
    {NORMALIZED.format(n="1", x="c", y="y")} }}}}"""
PASSES = (EliminateNoopArithmetic, MoveScaleToMatmul, MergeProjections)


def bert(opset):
    random = np.random.default_rng(0)
    weights = {name: random.normal(size=(8, 8)) for name in ("wq0", "wk0", "wu0", "wo0")}
    made = {name: array.astype(np.float32) for name, array in weights.items()}
    text = BERT.format(opset=opset)
    if opset > 12:
        text = text.replace("Unsqueeze<axes = [1]>(mask)", "Unsqueeze(mask, first)")
        text = text.replace("Unsqueeze<axes = [2]>(i)", "Unsqueeze(i, second)")
        made |= {"first": np.array([1]), "second": np.array([2])}
    ones, bias = np.ones(8, np.float32), random.normal(size=8).astype(np.float32)
    model = ir.from_proto(model_of(text, ones=ones, bias=bias, **made))
    ShapeInference()(model)
    return model


def operators_of_engine(model, path):
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(
        ir.to_proto(model).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return sorted(node.op_type for node in onnx.load(path).graph.node)


def test_an_engine_fuses_what_the_passes_leave(tmp_path):
    model = bert(12)
    before = operators_of_engine(model, tmp_path / "before.onnx")
    assert "Attention" in before
    for cls in PASSES:
        assert not cls()(model).modified
    assert operators_of_engine(model, tmp_path / "after.onnx") == before


@each_of("opset, changing", (13, PASSES[1:]), (17, PASSES))
def test_what_no_engine_fuses_is_taken_apart(opset, changing, tmp_path):
    model = bert(opset)
    assert "Attention" not in operators_of_engine(model, tmp_path / "before.onnx")
    assert [cls for cls in PASSES if cls()(model).modified] == [*changing]
