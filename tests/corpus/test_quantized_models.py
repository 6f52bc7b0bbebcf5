"""What quantisers write stays what engines look for."""

import subprocess
import sys
from collections import Counter

import numpy as np
import onnx
import onnxruntime

from tests.tables import each_of, model_of

BODY = """
  qx = QuantizeLinear(x, step, zero) dx = DequantizeLinear(qx, step, zero)
  w1 = DequantizeLinear<axis = 1>(weight, steps, zeros) m1 = MatMul(dx, w1)
  b1 = DequantizeLinear(bias, step, zero) a1 = Add(m1, b1)
  q1 = QuantizeLinear(a1, step, zero) d1 = DequantizeLinear(q1, step, zero)
  n = Shape<end = 1>(d1) sizes = Concat<axis = 0>(n, rest) r = Reshape(d1, sizes)
  q2 = QuantizeLinear(r, step, zero) d2 = DequantizeLinear(q2, step, zero)
  again = QuantizeLinear(r, step, zero) d3 = DequantizeLinear(again, step, zero)
  i = Identity(d2) s = Add(i, d3)
  q4 = QuantizeLinear(s, step, zero) y = DequantizeLinear(q4, step, zero)"""


def quantised():
    draw = np.random.default_rng(0)
    known = {
        "step": np.float32(0.05),
        "zero": np.int8(3),
        "weight": draw.integers(-127, 128, (64, 64)).astype(np.int8),
        "steps": draw.uniform(0.001, 0.002, 64).astype(np.float32),
        "zeros": np.zeros(64, np.int8),
        "bias": draw.integers(-127, 128, 64).astype(np.int8),
        "rest": np.array([8, 8]),
    }
    header = '<ir_version: 10, opset_import: ["" : 21]>'
    model = model_of(f"{header} net (float[N,64] x) => (float[N,8,8] y) {{ {BODY} }}", **known)
    onnx.checker.check_model(model, full_check=True)
    return model


def run(model, feeds):
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)[0]


@each_of("preset", "simplify", "optimize", "optimize-ort")
def test_pairs_stay_around_operators_and_weights_stay_integers(preset, tmp_path):
    before = quantised()
    source, target = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(before, source)
    command = [sys.executable, "-m", "onnx_passes", "--strict", "-c", preset]
    subprocess.run([*command, "-o", str(target), str(source)], check=True)
    after = onnx.load(target)
    kinds = Counter(node.op_type for node in after.graph.node)
    assert kinds["QuantizeLinear"] == 4, "one of five is there twice"
    assert kinds["DequantizeLinear"] == 6
    assert not {"Shape", "Concat", "Identity"} & kinds.keys()
    weights = {t.name: t.data_type for t in after.graph.initializer}
    assert weights["weight"] == weights["bias"] == onnx.TensorProto.INT8
    assert target.stat().st_size <= source.stat().st_size
    feeds = {"x": np.random.default_rng(1).standard_normal((5, 64)).astype(np.float32)}
    assert np.abs(run(after, feeds) - run(before, feeds)).max() <= 0.05, "more than a step"
