"""verify.reference: float64, from the pipeline file to the report."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.errors import ConfigError
from onnx_passes.passes.base import Transformation
from onnx_passes.pipeline import output_checks
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.testing import parse
from onnx_passes.verify.evidence import Verdict
from onnx_passes.verify.judge import error_growth
from tests.tables import each_of, edit_pass

SIZE = 400


def model(last="y = Neg(b)", shape=f"[4,{SIZE}]"):
    weights = np.random.default_rng(0).standard_normal((SIZE, SIZE)).astype(np.float32)
    made = parse(
        f"""(float[4,{SIZE}] x) => (float{shape} y) <float f = {{1}}>
        {{ a = MatMul(x, w) b = Mul(a, f) {last} }}""".replace(
            "<float f",
            f"<float[{SIZE},{SIZE}] w = {{{', '.join(['0'] * SIZE * SIZE)}}}, float f",
        )
    )
    made.graph.initializers["w"].const_value = ir.tensor(weights, name="w")
    return made


@passes.register("truth-halves")
@passes.verify.tolerance
class TruthHalves(Transformation):
    """Sum the two halves of a product: right, and rounded in another order."""

    factor: float = 1.0

    def call(self, model):
        node = next(n for n in model.graph if n.op_type == "MatMul")
        x, w = node.inputs
        half = SIZE // 2
        array = w.const_value.numpy() * np.float32(self.factor)
        parts = []
        for k, rows in enumerate((array[:half], array[half:])):
            name = f"w{k}"
            value = ir.Value(name=name, const_value=ir.tensor(rows.copy(), name=name))
            value.dtype, value.shape = ir.DataType.FLOAT, ir.Shape(rows.shape)
            model.graph.register_initializer(value)
            bounds = ir.node("Constant", [], {"value_ints": [k * half]})
            ends = ir.node("Constant", [], {"value_ints": [(k + 1) * half]})
            axes = ir.node("Constant", [], {"value_ints": [1]})
            cut = ir.node("Slice", [x, bounds.outputs[0], ends.outputs[0], axes.outputs[0]])
            part = ir.node("MatMul", [cut.outputs[0], value])
            model.graph.insert_before(node, [bounds, ends, axes, cut, part])
            parts.append(part.outputs[0])
        total = ir.node("Add", parts)
        model.graph.insert_before(node, total)
        ir.convenience.replace_all_uses_with(node.outputs[0], total.outputs[0])
        model.graph.remove(node)
        model.graph.initializers.pop("w")
        return ir.passes.PassResult(model, modified=True)


def run(factor=1.0, **verify):
    step = {"truth-halves": {"factor": factor}}
    # Under the default tolerance of float32 a right result of these sizes fails.
    tight = {"tolerance": {"rtol": 1.3e-6, "atol": 1e-5}}
    data = {"passes": [step], "verify": {**tight, **verify}, "reproducers": False}
    return run_pipeline(model(), config_from_data(data))


def checks(run, kind):
    return [c for c in (*run.report.passes[-1].checks, *run.report.final) if c.kind == kind]


def test_another_order_of_summation_fails_by_distance_and_passes_by_error_growth():
    by_distance = run()
    assert not checks(by_distance, "error-growth")
    assert by_distance.error is not None
    by_growth = run(reference="float64")
    assert by_growth.error is None
    found = checks(by_growth, "error-growth")
    assert len(found) == 3  # the pass, and the result on both engines
    assert all(0.2 < c.outputs[0].share < 0.8 for c in found)
    assert not checks(by_growth, "drift")


@each_of("factor", 1.0001, 0.99)
def test_a_systematic_error_fails_by_error_growth(factor):
    result = run(factor, reference="float64")
    assert result.error is not None
    (found,) = (c for c in checks(result, "error-growth") if c.verdict == "failed")
    assert found.outputs[0].share > 5
    assert "times what it was" in found.reason


def test_equality_is_not_affected():
    data = {"passes": ["eliminate-identity"], "verify": {"reference": "float64"}}
    text = "(float[2] x) => (float[2] y) { a = Identity(x) y = Exp(a) }"
    result = run_pipeline(parse(text), config_from_data(data))
    assert result.error is None
    assert [c.kind for c in result.report.passes[0].checks] == [
        "structure",
        "interface",
        "equality",
    ]


@each_of("bad", {"reference": "float32"}, {"growth": 0.5}, {"growth": "x"})
def test_bad_values_are_refused(bad):
    with pytest.raises(ConfigError):
        config_from_data({"passes": [], "verify": bad})


STEPS = ("c = Round(b) p = Constant<value_float = 2.0>() y = Pow(c, p)",)
FEW = "y = ReduceMax<keepdims = 0>(b)", ""


@each_of("made", STEPS, FEW, ids=["steps", "few"])
@each_of("factor, right", (1.0, True), (1.01, False))
def test_errors_by_luck_may_grow_as_far_as_it_moves(monkeypatch, made, factor, right):
    monkeypatch.setattr(
        output_checks, "error_growth", lambda *sides: error_growth(*sides[:3], 1e-9)
    )
    data = {
        "passes": [{"truth-halves": {"factor": factor}}],
        "verify": {"reference": "float64"},
        "reproducers": False,
    }
    done = run_pipeline(model(*made), config_from_data(data))
    assert (done.error is None) == right
    assert ("too far from the original" in str(done.error)) != right


@edit_pass(passes.verify.tolerance())
def truth_roots(model):
    """Take the root, which is NaN where numbers are negative."""
    for node in model.graph:
        node.op_type = {"Exp": "Sqrt"}.get(node.op_type, node.op_type)


def test_a_wrong_element_of_a_sequence_fails():
    text = "(float[4] x) => (seq(float[4]) y) { a = Exp(x) y = SequenceConstruct(a) }"
    data = {"verify": {"reference": "float64"}, "passes": ["truth-roots"]}
    done = run_pipeline(parse(text), config_from_data(data | {"reproducers": False}))
    assert done.report.passes[-1].verdict is Verdict.FAILED
