"""Files with QONNX's operators: verified by every preset, and still QONNX afterwards."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from onnx_passes.ops import bodies

DOMAIN = bodies.QONNX


def quant(x, y, bits, signed=1):
    return helper.make_node(
        "Quant",
        [x, "scale", "zero", bits],
        [y],
        domain=DOMAIN,
        signed=signed,
        narrow=0,
        rounding_mode="ROUND",
    )


@pytest.fixture
def network(tmp_path, monkeypatch):
    """Write a layer as Brevitas exports it: quantised weights and activations."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    tensors = {
        "scale": np.float32(0.25),
        "zero": np.float32(0),
        "two": np.float32(2),
        "four": np.float32(4),
        "w": rng.normal(0, 0.4, (6, 5)).astype(np.float32),
        "steps": np.float32([[0.5, 1.5, 4.0]]),
        "norm": rng.uniform(0.5, 2, 5).astype(np.float32),
    }
    nodes = [
        quant("x", "xq", "four"),
        helper.make_node("Identity", ["xq"], ["same"]),
        quant("w", "wq", "two"),
        helper.make_node("MatMul", ["same", "wq"], ["product"]),
        helper.make_node("BatchNormalization", ["product", *["norm"] * 4], ["normal"]),
        helper.make_node(
            "MultiThreshold", ["normal", "steps"], ["y"], domain=DOMAIN, out_dtype="UINT2"
        ),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", 1, ["N", 6])],
        [helper.make_tensor_value_info("y", 1, ["N", 5])],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in tensors.items()],
    )
    note = graph.quantization_annotation.add(tensor_name="x")
    note.quant_parameter_tensor_names.add(key="finn_datatype", value="INT4")
    imports = [helper.make_opsetid("", 13), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=7)
    onnx.save(model, "model.onnx")
    return model


@pytest.mark.parametrize("preset", ["cleanup", "optimize", "simplify", "lower"])
def test_presets_verify_and_keep_them(preset, network, cli):
    done = cli("-c", preset, "-o", "out.onnx", "model.onnx")
    assert done.code == 0
    assert done.err.startswith("VERIFIED")
    made = onnx.load("out.onnx")
    assert not made.functions
    assert made.ir_version == 7
    kinds = [node.op_type for node in made.graph.node if node.domain == DOMAIN]
    assert kinds == ["Quant", "Quant", "MultiThreshold"]
    assert not any(node.overload for node in made.graph.node)
    assert made.graph.quantization_annotation == network.graph.quantization_annotation
    assert preset == "lower" or len(made.graph.node) == 5, "the Identity is gone"


def test_a_wrong_pass_behind_a_quantiser_is_refused(network, cli, tmp_path):
    (tmp_path / "wrong.py").write_text(
        "from onnx_passes import passes\n"
        "from onnx_passes.passes.base import RewriteRulePass, Transformation\n"
        "@passes.verify.equality\n"
        "@passes.register()\n"
        "class CoarserSteps(Transformation, RewriteRulePass):\n"
        "    def pattern(self, op, x, s, z, b):\n"
        f"        return op.Quant(x, s, z, b, _domain={DOMAIN!r})\n"
        "    def check(self, _, x, s, z, b): return b.name == 'four'\n"
        "    def rewrite(self, op, x, s, z, b):\n"
        f"        return op.Quant(x, s, z, op.Sub(b, op.Div(b, b)), _domain={DOMAIN!r},\n"
        "                        signed=1, narrow=0, rounding_mode='ROUND')\n"
    )
    (tmp_path / "p.yaml").write_text("imports: [wrong]\npasses: [coarser-steps]\n")
    done = cli("-c", "p.yaml", "-o", "out.onnx", "model.onnx")
    assert done.code != 0
    assert "coarser-steps" in done.out + done.err
    assert "FAILED" in done.out + done.err


def test_shapes_are_inferred_through_them(network, cli):
    done = cli("-o", "out.onnx", "model.onnx", "shape-inference")
    assert done.code == 0
    known = {info.name for info in onnx.load("out.onnx").graph.value_info}
    assert {"xq", "wq", "product", "normal"} <= known


def test_inspect_names_them(network, cli):
    done = cli("inspect", "model", "model.onnx", "--show", "layers")
    assert done.code == 0
    assert "Quant" in done.out
    assert "MultiThreshold" in done.out
