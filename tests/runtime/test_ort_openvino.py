"""An execution provider that executes without a GPU, where ONNX Runtime has it."""

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from onnx_passes.bench.runs import Runner, compare
from onnx_passes.errors import EngineUnavailableError
from onnx_passes.runtime.engines import engine_from_config

PROVIDER = "OpenVINOExecutionProvider"
if PROVIDER not in onnxruntime.get_available_providers():
    pytest.skip(
        f"this build of ONNX Runtime has no {PROVIDER}: pip install onnxruntime-openvino",
        allow_module_level=True,
    )

HEAD = '<ir_version: 8, opset_import: ["": 17]> '
TAKEN = HEAD + "g (float[64,64] a, float[64,64] b) => (float[64,64] c) { c = MatMul(a, b) }"
STRINGS = HEAD + "g (string[2] x) => (string[2] y) { y = Identity(x) }"
PARTLY = (
    HEAD + "g (string[2] x, float[2] z) => (string[2] y, float[2] w) "
    "{ y = Identity(x) v = Relu(z) w = Add(v, z) }"
)


def prepare(text, **options):
    engine = engine_from_config("onnxruntime", {"provider": PROVIDER, **options})
    return engine.prepare(ir.from_onnx_text(text))


def test_it_computes_in_float32_and_tells_the_nodes_that_it_got():
    rng = np.random.default_rng(0)
    feeds = {name: rng.random((64, 64), np.float32) for name in "ab"}
    with prepare(TAKEN) as session:
        found = session.run(feeds)["c"]
        assert session.placed == {PROVIDER: 1}
    assert np.abs(found - feeds["a"].astype(np.float64) @ feeds["b"]).max() < 1e-4


def test_a_model_that_it_takes_nothing_of_is_an_error():
    with pytest.raises(EngineUnavailableError, match="runs no node of this model"):
        prepare(STRINGS).__enter__()


def test_nodes_that_the_cpu_runs_are_counted_and_can_be_forbidden():
    with prepare(PARTLY) as session:
        assert session.placed == {PROVIDER: 2, "CPUExecutionProvider": 1}
    with pytest.raises(Exception, match="CPU EP"):
        prepare(PARTLY, cpu_fallback=False).__enter__()


def test_a_comparison_notes_who_ran_what():
    engine = engine_from_config("onnxruntime", {"provider": PROVIDER})
    model = ir.from_onnx_text(PARTLY)
    feeds = {"x": np.array(["a", "b"], object), "z": np.float32([1, -2])}
    found = compare([Runner(model), Runner(model, engine)], [feeds])
    assert found.passed
    assert any(f"{PROVIDER} 2, CPUExecutionProvider 1" in note for note in found.notes)
