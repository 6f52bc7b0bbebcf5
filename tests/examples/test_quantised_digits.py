"""The quantised networks of the examples, through the pipeline beside them."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.cli.main import main
from onnx_passes.configs.pipeline_files import load_config
from onnx_passes.configs.steps import PassUse
from onnx_passes.passes.streamline.annotate_integers import KEY
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from tests.tables import each_of, outputs_of

HERE = Path(__file__).parents[2] / "examples" / "quantised_digits"
DIGITS = HERE.parent / "digits"
RIGHT = {
    "mlp_1w1a": 365,
    "mlp_2w2a": 368,
    "cnn_w4a4": 394,
    "residual_w3a4": 399,
    "attention_w4a4": 376,
}
"""How many of the 400 images each network reads, as the README says."""


def scores(model):
    images = np.load(DIGITS / "images.npy")
    return outputs_of(OnnxRuntimeEngine(prepacking=False), model, {"image": images})["scores"]


def right(found):
    return int((found.argmax(1) == np.load(DIGITS / "labels.npy")).sum())


def test_the_pipeline_is_the_preset_with_a_check_at_its_end():
    ours = load_config(HERE / "pipeline.yaml")
    *steps, last = ours.passes
    assert [str(step) for step in steps] == [str(s) for s in load_config("streamline").passes]
    assert isinstance(last, PassUse)
    assert last.name == "assert"
    assert ours.verify.metrics == {"accuracy": (0.9, 1.0)}


@each_of("name", *RIGHT)
def test_networks_are_small_exports_of_qonnx(name):
    path = HERE / f"{name}.onnx"
    assert path.stat().st_size < 300_000
    model = onnx.load(path)
    kinds = Counter(node.op_type for node in model.graph.node)
    assert kinds["Quant"] + kinds["BipolarQuant"] >= 8
    known = {entry.key: entry.value for entry in model.metadata_props}
    assert float(known["test_accuracy"]) == RIGHT[name] / 400


@pytest.mark.timeout(300)
@each_of("name", *RIGHT)
def test_it_becomes_integers_between_thresholds_and_reads_as_before(name, tmp_path, capsys):
    target = tmp_path / "out.onnx"
    command = ["-c", HERE / "pipeline.yaml", "-o", target, HERE / f"{name}.onnx"]
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in command])
    shown = "".join(capsys.readouterr())
    assert ended.value.code == 0, shown
    assert "VERIFIED" in shown
    assert "NOT VERIFIED" not in shown
    before, after = ir.load(HERE / f"{name}.onnx"), ir.load(target)
    kinds = Counter(node.op_type for node in after.graph)
    assert not {"Quant", "BipolarQuant", "BatchNormalization"} & set(kinds)
    assert kinds["Mul"] <= (2 if name.startswith("attention") else 1), "of the scores"
    for node in after.graph:
        if node.op_type in ("MatMul", "Conv"):
            for value in (*node.inputs, *node.outputs):
                known = value.meta.get("quant_parameter_tensor_names") or {}
                assert known.get(KEY), f"{node.name}: {value.name}"
    old, new = scores(before), scores(after)
    np.testing.assert_allclose(old, new, rtol=1e-5, atol=1e-5)
    assert right(old) == right(new) == RIGHT[name]
