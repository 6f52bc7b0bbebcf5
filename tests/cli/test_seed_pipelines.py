"""Pipelines as the seed system's demonstrations have them: its keys, names and commands."""

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.cli.modules import SEED
from tests.tables import model_of, outputs_of

IMPORTS = "onnx_passes.passes.imports.qonnx, onnx_passes.passes.inline.qonnx"


@pytest.fixture
def demo(tmp_path, cli, monkeypatch):
    """Write a model of standard and QONNX nodes with its data; return what runs commands."""
    monkeypatch.chdir(tmp_path)

    def write(graph, shape, weights, *, layouts="", domain=""):
        from onnx_passes.model.load import load_model
        from onnx_passes.runtime.ort import OnnxRuntimeEngine

        others = f', "{domain}" : 1' if domain else ""
        header = f'<ir_version: 8, opset_import: ["" : 19{others}]>'
        sizes = ",".join(map(str, shape))
        ends = ",".join(f"d{i}" for i in range(len(shape)))
        text = f"{header} demo (float[{sizes}] x) => (float[{ends}] y) {{ {graph} }}"
        onnx.save(model_of(text, **weights), "model.onnx")
        x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
        y = outputs_of(OnnxRuntimeEngine(), load_model("model.onnx").model, {"x": x})["y"]
        np.save("inp.npy", x)
        np.save("out.npy", y)
        imported = IMPORTS if domain else ""
        text = SEED.replace("imports: [ ]", f"imports: [{imported}]\n{layouts}")
        (tmp_path / "cfg.yaml").write_text(text)

    def run(steps):
        words = (*steps.split(), "checker", "verify")
        done = cli("-c", "cfg.yaml", "-o", "out.onnx", "model.onnx", *words)
        assert done.code == 0, done.err
        assert done.err.startswith("VERIFIED")
        model = onnx.load("out.onnx")
        return [node.op_type for node in model.graph.node if node.op_type != "Constant"]

    return write, run


def rows(*names, size=4, seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(0.5, 2, size).astype(np.float32) for name in names}


def test_batch_normalization(demo):
    write, run = demo
    write("y = BatchNormalization(x, s, b, m, v)", [2, 4, 5], rows("s", "b", "m", "v"))
    steps = "shape-inference inline-batchnorm fold-constants shape-inference cleanup"
    assert run(steps) == ["Sub", "Div", "Mul", "Add"]
    assert run("shape-inference inline-batchnorm streamline") == ["Mul", "Add"]


def test_convolution_and_layouts(demo):
    write, run = demo
    weights = np.random.default_rng(0).normal(size=(4, 2, 3, 3)).astype(np.float32)
    layout = "- { assumes: [ N, C, H, W ], perm: [ 0, 2, 3, 1 ] }"
    layouts = f"layouts:\n  inp:\n    {layout}\n  out:\n    {layout}"
    conv = "y = Conv<pads = [0, 0, 0, 0]>(x, w, b)"
    write(conv, [1, 2, 6, 6], {"w": weights, **rows("b")}, layouts=layouts)
    folded = "shape-inference fold-constants"
    lowered = run(f"{folded} lower-conv {folded}")
    assert lowered == ["Transpose", "Im2Col", "MatMul", "Add", "Transpose"]
    absorbed = run(f"{folded} lower-conv convert-layouts absorb-layouts {folded}")
    assert absorbed == ["LayoutConverter", "Im2Col", "MatMul", "Add", "LayoutConverter"]


BREVITAS = "onnx.brevitas"
QUANT = BREVITAS + '.Quant<signed = 1, narrow = 0, rounding_mode = "ROUND">'
PARAMETERS = {"s": np.float32(0.3), "z": np.float32(0), "k": np.float32(3)}


def test_quantisers(demo):
    import onnxruntime

    write, run = demo
    write(f"y = {QUANT}(x, s, z, k)", [2, 5], PARAMETERS, domain=BREVITAS)
    assert run("import-qonnx") == ["Quant"]
    session = onnxruntime.InferenceSession("out.onnx", providers=["CPUExecutionProvider"])
    found = session.run(None, {"x": np.load("inp.npy")})[0]
    np.testing.assert_array_equal(found, np.load("out.npy"))
    assert run("import-qonnx inline-qonnx streamline") == ["Div", "Clip", "Round", "Mul"]


def test_thresholds_of_a_layer_tail(demo):
    write, run = demo
    tail = "a = Add(x, c) n = BatchNormalization(a, g, b, m, v) t = Sigmoid(n) "
    weights = {**PARAMETERS, "s": np.float32(0.1), **rows("c", "g", "b", "m", "v", size=8)}
    write(f"{tail} y = {QUANT}(t, s, z, k)", [1, 8], weights, domain=BREVITAS)
    model = onnx.load("model.onnx")
    for tensor in model.graph.initializer:  # as exporters of old leave them
        model.graph.input.append(
            helper.make_tensor_value_info(tensor.name, 1, list(tensor.dims))
        )
    onnx.save(model, "model.onnx")
    steps = "import-qonnx inline-qonnx inline-batchnorm streamline-thresholds streamline"
    assert run(steps) == ["MultiThreshold", "Mul"]


def test_shapes_collapse(demo):
    write, run = demo
    shapes = {"one": np.array([1]), "shape": np.array([4, 3, 2])}
    chain = "a = Unsqueeze(x, one) b = Flatten(a) y = Reshape(b, shape)"
    write(chain, [4, 3, 2], shapes)
    assert set(run("reorder shape-inference cleanup")) <= {"Reshape"}
    assert run("streamline") == ["Identity"]


def test_transposes_meet(demo):
    write, run = demo
    turned = "a = Transpose<perm = [0, 2, 1]>(x) b = Mul(two, a) c = Relu(b)"
    both = "d = Transpose<perm = [2, 0, 1]>(c) e = Transpose<perm = [1, 0, 2]>(x)"
    write(f"{turned} {both} y = Add(d, e)", [3, 4, 5], {"two": np.float32(2)})
    kinds = run("streamline")
    assert kinds.count("Transpose") == 1
    assert kinds[-1] == "Transpose"
