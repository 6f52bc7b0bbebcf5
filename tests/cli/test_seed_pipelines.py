"""Pipelines as the seed system's demonstrations have them: its keys, names and commands."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

CONFIG = """\
imports: [{imports}]
reference:
  inp: [ inp.npy ]
  out: [ out.npy ]
{layouts}
model_checker:
  full_check: true
shape_inference: {{ }}
onnxruntime:
  providers:
    - - CPUExecutionProvider
      - {{ }}
  full_context_dump: false
verify:
  tolerance:
    atol: 1.0e-6
  metrics:
    max_abs_error: [ 0.0, 0.01 ]
logging:
  verbose: false
  checkpoint: false
  keep_intermediates: false
exhaustive: false
"""
IMPORTS = "onnx_passes.passes.imports.qonnx, onnx_passes.passes.inline.qonnx"


@pytest.fixture
def demo(tmp_path, cli, monkeypatch):
    """Write a model of standard and QONNX nodes with its data; return what runs commands."""
    monkeypatch.chdir(tmp_path)

    def write(nodes, shape, tensors, *, layouts="", domains=(), as_inputs=False):
        from onnx_passes.model.load import load_model
        from onnx_passes.runtime.ort import OnnxRuntimeEngine

        rng = np.random.default_rng(1)
        infos = [helper.make_tensor_value_info("x", 1, shape)]
        if as_inputs:
            infos += [helper.make_tensor_value_info(k, 1, v.shape) for k, v in tensors.items()]
        graph = helper.make_graph(
            nodes,
            "demo",
            infos,
            [helper.make_tensor_value_info("y", 1, [f"d{i}" for i in range(len(shape))])],
            [numpy_helper.from_array(np.asarray(v), k) for k, v in tensors.items()],
        )
        imports = [helper.make_opsetid(d, 1) for d in domains] + [helper.make_opsetid("", 19)]
        onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), "model.onnx")
        x = rng.normal(size=shape).astype(np.float32)
        with OnnxRuntimeEngine().prepare(load_model("model.onnx").model) as session:
            y = session.run({"x": x})["y"]
        np.save("inp.npy", x)
        np.save("out.npy", y)
        imported = IMPORTS if domains else ""
        (tmp_path / "cfg.yaml").write_text(CONFIG.format(imports=imported, layouts=layouts))

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
    node = helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])
    write([node], [2, 4, 5], rows("s", "b", "m", "v"))
    steps = "shape-inference inline-batchnorm fold-constants shape-inference cleanup"
    assert run(steps) == ["Sub", "Div", "Mul", "Add"]
    assert run("shape-inference inline-batchnorm streamline") == ["Mul", "Add"]


def test_convolution_and_layouts(demo):
    write, run = demo
    weights = np.random.default_rng(0).normal(size=(4, 2, 3, 3)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[0, 0, 0, 0])
    layout = "- { assumes: [ N, C, H, W ], perm: [ 0, 2, 3, 1 ] }"
    layouts = f"layouts:\n  inp:\n    {layout}\n  out:\n    {layout}"
    write([node], [1, 2, 6, 6], {"w": weights, **rows("b")}, layouts=layouts)
    folded = "shape-inference fold-constants"
    lowered = run(f"{folded} lower-conv {folded}")
    assert lowered == ["Transpose", "Im2Col", "MatMul", "Add", "Transpose"]
    absorbed = run(f"{folded} lower-conv convert-layouts absorb-layouts {folded}")
    assert absorbed == ["LayoutConverter", "Im2Col", "MatMul", "Add", "LayoutConverter"]


def quantiser(x, y, **attributes):
    return helper.make_node(
        "Quant",
        [x, "s", "z", "k"],
        [y],
        domain="onnx.brevitas",
        signed=1,
        narrow=0,
        **attributes,
    )


PARAMETERS = {"s": np.float32(0.3), "z": np.float32(0), "k": np.float32(3)}


def test_quantisers(demo):
    import onnxruntime

    write, run = demo
    node = quantiser("x", "y", rounding_mode="ROUND")
    write([node], [2, 5], PARAMETERS, domains=["onnx.brevitas"])
    assert run("import-qonnx") == ["Quant"]
    session = onnxruntime.InferenceSession("out.onnx", providers=["CPUExecutionProvider"])
    found = session.run(None, {"x": np.load("inp.npy")})[0]
    np.testing.assert_array_equal(found, np.load("out.npy"))
    assert run("import-qonnx inline-qonnx streamline") == ["Div", "Clip", "Round", "Mul"]


def test_thresholds_of_a_layer_tail(demo):
    write, run = demo
    nodes = [
        helper.make_node("Add", ["x", "c"], ["a"]),
        helper.make_node("BatchNormalization", ["a", "g", "b", "m", "v"], ["n"]),
        helper.make_node("Sigmoid", ["n"], ["t"]),
        quantiser("t", "y", rounding_mode="ROUND"),
    ]
    tensors = {**PARAMETERS, "s": np.float32(0.1), **rows("c", "g", "b", "m", "v", size=8)}
    write(nodes, [1, 8], tensors, domains=["onnx.brevitas"], as_inputs=True)
    steps = "import-qonnx inline-qonnx inline-batchnorm streamline-thresholds streamline"
    assert run(steps) == ["MultiThreshold", "Mul"]


def test_shapes_collapse(demo):
    write, run = demo
    two = np.array([1], np.int64)
    nodes = [
        helper.make_node("Unsqueeze", ["x", "one"], ["a"]),
        helper.make_node("Flatten", ["a"], ["b"]),
        helper.make_node("Reshape", ["b", "shape"], ["y"]),
    ]
    write(nodes, [4, 3, 2], {"one": two, "shape": np.array([4, 3, 2], np.int64)})
    steps = run("reorder shape-inference cleanup")
    assert set(steps) <= {"Reshape"}
    assert run("streamline") == ["Identity"]


def test_transposes_meet(demo):
    write, run = demo

    def turn(x, y, perm):
        return helper.make_node("Transpose", [x], [y], perm=perm)

    nodes = [
        turn("x", "a", [0, 2, 1]),
        helper.make_node("Mul", ["two", "a"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        turn("c", "d", [2, 0, 1]),
        turn("x", "e", [1, 0, 2]),
        helper.make_node("Add", ["d", "e"], ["y"]),
    ]
    write(nodes, [3, 4, 5], {"two": np.float32(2)})
    kinds = run("streamline")
    assert kinds.count("Transpose") == 1
    assert kinds[-1] == "Transpose"


def test_its_modules_and_names_import(tmp_path, cli, model, write):
    write(
        "theirs.py",
        "import onnx_passes.passes as passes\n"
        "from onnx_passes.ops import DOMAIN as CUSTOM_DOMAIN, inject_custom_ops\n"
        "from onnx_passes.ops.im2col import Im2Col\n"
        "from onnx_passes.ops.qonnx import DOMAIN as QONNX_DOMAIN\n"
        "from onnx_passes.passes import collect, inject_custom_ops as again\n"
        "assert again is inject_custom_ops\n"
        "from onnx_passes.passes.base import FunctionalPass, RewriteRulePass, Transformation\n"
        "from onnx_passes.passes.util import is_constant, get_const_or_none\n"
        "from onnx_passes.traits.elementwise_operators import is_elementwise\n"
        "@passes.verify.equality\n"
        '@passes.register("theirs")\n'
        "class DropIdentity(Transformation, RewriteRulePass):\n"
        "    def pattern(self, op, x): return op.Identity(x)\n"
        "    def check(self, op, x): return not is_constant(x)\n"
        "    def rewrite(self, op, x): return x\n",
    )
    write("p.yaml", "imports: [theirs]\npasses: [theirs]\n")
    assert cli("-c", "p.yaml", "-o", "out.onnx", "model.onnx").code == 0
    assert len(onnx.load("out.onnx").graph.node) == 2
