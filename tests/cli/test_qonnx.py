"""Files with QONNX's operators: verified by every preset, and still QONNX afterwards."""

import numpy as np
import onnx
import pytest

from onnx_passes.ops import bodies
from tests.cli.modules import rule_pass
from tests.tables import each_of, model_of

DOMAIN = bodies.QONNX


QUANT = DOMAIN + '.Quant<signed = 1, narrow = 0, rounding_mode = "ROUND">'
LAYER = f"""<ir_version: 7, opset_import: ["" : 13, "{DOMAIN}" : 1]>
    net (float[N, 6] x) => (float[N, 5] y) {{
        xq = {QUANT}(x, scale, zero, four) same = Identity(xq)
        wq = {QUANT}(w, scale, zero, two) product = MatMul(same, wq)
        normal = BatchNormalization(product, norm, norm, norm, norm)
        y = {DOMAIN}.MultiThreshold<out_dtype = "UINT2">(normal, steps) }}"""


@pytest.fixture
def network(tmp_path, monkeypatch):
    """Write a layer as Brevitas exports it: quantised weights and activations."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    numbers = {"scale": 0.25, "zero": 0, "two": 2, "four": 4, "steps": [[0.5, 1.5, 4.0]]}
    model = model_of(
        LAYER,
        w=rng.normal(0, 0.4, (6, 5)).astype(np.float32),
        norm=rng.uniform(0.5, 2, 5).astype(np.float32),
        **{name: np.float32(number) for name, number in numbers.items()},
    )
    note = model.graph.quantization_annotation.add(tensor_name="x")
    note.quant_parameter_tensor_names.add(key="finn_datatype", value="INT4")
    onnx.save(model, "model.onnx")
    return model


@each_of("preset", "cleanup", "optimize", "simplify", "lower")
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
    quant = f"op.Quant(x, s, z, %s, _domain={DOMAIN!r}%s)"
    less = quant % ("op.Sub(b, op.Div(b, b))", ", signed=1, narrow=0, rounding_mode='ROUND'")
    only = {"values": "x, s, z, b", "check": "b.name == 'four'"}
    (tmp_path / "wrong.py").write_text(
        rule_pass("CoarserSteps", quant % ("b", ""), less, **only)
    )
    (tmp_path / "p.yaml").write_text("imports: [wrong]\npasses: [coarser-steps]\n")
    done = cli("-c", "p.yaml", "-o", "out.onnx", "model.onnx")
    assert done.code != 0
    assert "coarser-steps" in done.out + done.err
    assert "FAILED" in done.out + done.err


def test_shapes_are_inferred_through_them(network, cli):
    assert cli("-o", "out.onnx", "model.onnx", "shape-inference").code == 0
    known = {info.name for info in onnx.load("out.onnx").graph.value_info}
    assert {"xq", "wq", "product", "normal"} <= known


def test_inspect_names_them(network, cli):
    done = cli("inspect", "model", "model.onnx", "--show", "layers")
    done.prints(0, "Quant", "MultiThreshold")
