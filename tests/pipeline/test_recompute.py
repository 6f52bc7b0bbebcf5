"""Values that a recording has not, had from the values recorded nearest above them."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.contracts import Equality
from onnx_passes.pipeline.baseline import Baseline
from onnx_passes.pipeline.engine_side import Bench
from onnx_passes.pipeline.recompute import recompute
from onnx_passes.pipeline.recorded_values import Recorded
from onnx_passes.pipeline.recorder import Recorder
from onnx_passes.pipeline.regional import RegionCheck
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.recording import Recording
from onnx_passes.verify.result import Verdict

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


@pytest.mark.parametrize(("known", "wanted"), [("v2", "v38"), ("v2", "nowhere")])
def test_a_run_of_much_of_the_model_is_no_gain(nodes_run, known, wanted):
    model = chain()
    recordings = recorded(model, known)
    nodes_run.clear()
    assert recompute(OnnxRuntimeEngine(), model, recordings, [wanted]) is None
    assert not nodes_run


@pytest.mark.parametrize(
    ("operator", "verdict"), [("Abs", Verdict.FAILED), ("Neg", Verdict.PASSED)]
)
def test_a_check_that_lacks_values_runs_no_whole_model_and_still_finds_a_fault(
    nodes_run, operator, verdict
):
    before = chain(v20="Neg")
    names = [*(f"v{i}" for i in range(LENGTH - 1) if i != 19), "y"]
    known = Recorded(recorded(before, *names))
    nodes_run.clear()
    bench = Bench(OnnxRuntimeEngine(), "each")
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
