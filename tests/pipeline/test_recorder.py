"""Values that a recording has not, had from the values recorded nearest above them."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.contracts import Equality
from onnx_passes.passes.annotation.shape_inference import infer_shapes
from onnx_passes.passes.folding.fold_constants import FoldConstants
from onnx_passes.pipeline.baseline import Baseline, EngineBaseline
from onnx_passes.pipeline.engine_check import RegionCheck
from onnx_passes.pipeline.recorder import Recorder, recompute
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.testing import HEADER
from onnx_passes.verify.evidence import Verdict
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.recording import Recorded, Recording
from tests.tables import each_of

HEAD = """<ir_version: 10, opset_import: ["" : 20]> g (float[N, 4] x) => (float[N, 4] y) """
SAMPLES = [{"x": np.random.default_rng(n).random((n + 2, 4), np.float32)} for n in range(2)]
LENGTH = 40


def chain(**changed):
    """A chain of nodes v0 to v39, some of them changed."""
    lines = []
    for i in range(LENGTH):
        operator = changed.get(f"v{i}", "Sin")
        source, result = f"v{i - 1}" if i else "x", f"v{i}" if i < LENGTH - 1 else "y"
        lines.append(f"{result} = {operator}({source})")
    return ir.from_onnx_text(HEAD + "{" + " ".join(lines) + "}")


def recorded(model, *names):
    """Record some values of a model, by running it, sample for sample."""
    found = []
    shown = model.clone()
    values = {v.name: v for node in shown.graph for v in node.outputs}
    shown.graph.outputs.extend(values[name] for name in names if name != "y")
    with OnnxRuntimeEngine().prepare(shown) as session:
        for feeds in SAMPLES:
            recording = Recording(1 << 20)
            recording.update(feeds)
            recording.update({name: session.run(feeds)[name] for name in names})
            found.append(recording)
    return found


def test_they_are_the_bytes_of_a_whole_run_at_the_price_of_a_few_nodes(nodes_run):
    model = chain(v9="Exp")
    known, whole = recorded(model, "v8"), recorded(model, "v11")
    nodes_run.clear()
    found = recompute(OnnxRuntimeEngine(), model, known, ["v11"])
    assert nodes_run == [3]
    for values, expected in zip(found, whole, strict=True):
        assert values["v11"].tobytes() == expected["v11"].tobytes()


@each_of("operator, verdict", ("Abs", Verdict.FAILED), ("Neg", Verdict.PASSED))
def test_a_check_without_values_finds_a_fault_without_a_whole_model(
    nodes_run, operator, verdict
):
    before = chain(v20="Neg")
    names = [*(f"v{i}" for i in range(LENGTH - 1) if i != 19), "y"]
    known = Recorded(recorded(before, *names))
    nodes_run.clear()
    bench = EngineBaseline(OnnxRuntimeEngine(), "each")
    baseline = Baseline(chain(), [bench], SAMPLES)
    found = RegionCheck(
        Recorder(bench, 1 << 20),
        baseline,
        before,
        _rewritten(chain(v20="Neg"), operator),
        (),
        [Promise(Equality(), inside=True)],
        untouched=True,
    ).run(known)
    assert LENGTH not in nodes_run
    assert [check.verdict for check in found.checks] == [verdict]


def _rewritten(model, operator):
    """Write v20 = Neg(v19) as v20 = Identity(Neg(v19)), or with a wrong operator."""
    node = model.graph.node(20)
    first = ir.Node("", operator, [node.inputs[0]], name="first")
    first.outputs[0].name = "first"
    model.graph.insert_before(node, first)
    node.op_type = "Identity"
    node.replace_input_with(0, first.outputs[0])
    return model


TURNED = """(float[N, 600] x, float[600, 600] a, float[600, 600] b) => (float[N, 600] y) {
    t = Transpose (a)
    m = MatMul (x, t)
    u = Transpose (b)
    y = MatMul (m, u)
}"""


@pytest.fixture
def turned():
    """Return a model whose two weights are computed from constants, 1.4 MB each."""
    random = np.random.default_rng(0)
    proto = onnx.parser.parse_model(HEADER + TURNED)
    del proto.graph.input[1:]
    for name in "ab":
        array = random.standard_normal((600, 600)).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    model = ir.from_proto(proto)
    infer_shapes(model)
    return model


@each_of("wrong", False, True)
def test_folded_weights_are_computed_once_for_all_samples(
    nodes_run, turned, wrong, monkeypatch
):
    monkeypatch.setattr("onnx_passes.pipeline.recorder._AT_ONCE", 1 << 20)
    after = turned.clone()
    FoldConstants().call(after)
    assert [node.op_type for node in after.graph] == ["MatMul", "MatMul"]
    if wrong:
        held = after.graph.initializers["u"]
        array = held.const_value.numpy().copy()
        array[-1, -1] += 1
        held.const_value = ir.tensor(array)
    rows = [{"x": np.random.default_rng(n).random((n + 2, 600), np.float32)} for n in range(3)]
    bench = EngineBaseline(OnnxRuntimeEngine(), "each")
    recorder, baseline = Recorder(bench, 1 << 20), Baseline(turned, [bench], rows)
    nodes_run.clear()
    known = recorder.obtain(None, turned, baseline, frozenset({"t", "u"}), untouched=True)
    assert nodes_run == [4, 1, 1]
    for name, weight in (("t", "a"), ("u", "b")):
        arrays = [recording[name] for recording in known.samples]
        assert all(array is arrays[0] for array in arrays)
        assert isinstance(arrays[0], np.memmap)
        expected = turned.graph.initializers[weight].const_value.numpy().T
        np.testing.assert_array_equal(arrays[0], expected)
    promise = Promise(Equality(), inside=True)
    check = RegionCheck(recorder, baseline, turned, after, (), [promise], untouched=True)
    (found,) = check.run(None).checks
    assert found.verdict is (Verdict.FAILED if wrong else Verdict.PASSED)
