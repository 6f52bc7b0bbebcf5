"""The engine's own spread is measured first, and no limit lies under it."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from click.testing import CliRunner

from benchmarks.models.transformer import transformer
from onnx_passes import passes
from onnx_passes.cli.main import program
from onnx_passes.configs.pipeline_files import config_from_data, default_config
from onnx_passes.contracts import Tolerance
from onnx_passes.errors import ConfigError
from onnx_passes.passes.base import Transformation
from onnx_passes.pipeline.noise import LARGEST_NOISE_LIMIT, OriginalRuns
from onnx_passes.pipeline.output_checks import Thresholds
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.report.json import from_json, to_json
from onnx_passes.report.text import NOISE
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.evidence import Verdict
from tests.tables import each_of, each_row

# ONNX Runtime fuses this normalisation where it may, and then rounds otherwise; the last
# factor lifts that above the default limit.
MODEL = """<ir_version: 10, opset_import: ["": 17]> g (float[8, 64] x) => (float[8, 64] y)
<float two = {{2}}, float eps = {{0.00001}}, float[1] k = {{1000}}> {{
  gamma = Constant<value = float[64] {{{gamma}}}>()
  beta = Constant<value = float[64] {{{beta}}}>()
  m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) p = Pow(d, two) v = ReduceMean<axes = [-1]>(p)
  e = Add(v, eps) s = Sqrt(e) n = Div(d, s) w = Mul(n, gamma) b = Add(w, beta) y = Mul(b, k)
}}""".format(gamma=", ".join(["1.1"] * 64), beta=", ".join(["0.3"] * 64))


@passes.verify.tolerance()
@passes.register()
class NoiseReassociate(Transformation):
    """Multiply by the last factor first: correct, and rounded otherwise."""

    def call(self, model):
        nodes = {str(node.outputs[0].name): node for node in model.graph}
        factor = nodes["y"].inputs[1]
        early = ir.node("Mul", [nodes["w"].inputs[1], factor])
        shift = ir.node("Mul", [nodes["b"].inputs[1], factor])
        early.outputs[0].name, shift.outputs[0].name = "early", "shift"
        model.graph.insert_before(nodes["w"], [early, shift])
        total = ir.node("Add", [nodes["w"].outputs[0], shift.outputs[0]])
        nodes["w"].replace_input_with(1, early.outputs[0])
        model.graph.insert_before(nodes["y"], total)
        y = nodes["y"].outputs[0]
        total.outputs[0].name, total.outputs[0].type = "y", y.type
        total.outputs[0].shape = y.shape
        model.graph.outputs[0] = total.outputs[0]
        model.graph.remove([nodes["y"], nodes["b"]], safe=True)
        return ir.passes.PassResult(model, True)


@passes.verify.tolerance()
@passes.register()
class NoiseWrong(Transformation):
    """Multiply by one factor less."""

    def call(self, model):
        nodes = {str(node.outputs[0].name): node for node in model.graph}
        nodes["b"].replace_input_with(0, nodes["n"].outputs[0])
        return ir.passes.PassResult(model, True)


@passes.verify.equality
@passes.register()
class NoiseSwap(Transformation):
    """Swap the operands of the product: the same bits."""

    def call(self, model):
        node = next(n for n in model.graph if n.op_type == "Mul")
        first, second = node.inputs
        node.replace_input_with(0, second)
        node.replace_input_with(1, first)
        return ir.passes.PassResult(model, True)


def run(steps, *settings):
    config = default_config(["reproducers=false", *settings], steps)
    return run_pipeline(ir.from_proto(onnx.parser.parse_model(MODEL)), config)


@each_row("""setting | named
- verify.tolerance={rtol: 0, atol: 1.0e-9} | verify.tolerance
- verify.drift={rtol: 0, atol: 1.0e-9} | verify.drift
- verify.tolerance.outputs.y={rtol: 0, atol: 1.0e-9} | verify.tolerance.outputs.y
""")
def test_a_given_limit_under_the_noise_is_refused_with_what_to_set(setting, named):
    with pytest.raises(ConfigError, match="lies under the noise") as caught:
        run(["noise-reassociate"], setting)
    assert caught.value.exit_code == 2
    assert caught.value.message.startswith(f"{named} (rtol 0, atol 1e-9)")
    assert "onnxruntime" in caught.value.message
    assert "10 times the spread" in caught.value.help


def test_what_is_advised_is_accepted():
    with pytest.raises(ConfigError) as caught:
        run(["noise-reassociate"], "verify.drift={rtol: 0, atol: 1.0e-9}")
    words = caught.value.help.split()
    atol = float(words[words.index("atol") + 1])
    report = run(["noise-reassociate"], f"verify.drift={{rtol: 0, atol: {atol}}}").report
    assert report.exit_code == 0, report.error


SEED = "logging.verbose=false"
"""A key that only files of the seed system have."""


def test_a_tolerance_of_the_seed_system_under_the_noise_is_raised_and_that_is_said():
    settings = [SEED, "verify.tolerance={rtol: 1.3e-6, atol: 1.0e-8}"]
    report = run(["noise-reassociate"], *settings).report
    (note,) = [n for n in report.notes if "lies under the noise" in n]
    assert note.startswith("verify.tolerance (rtol 1.3e-6, atol 1e-8)")
    assert "raised to rtol" in note
    assert "10 times the spread" in note
    assert report.exit_code == 0, report.error
    assert run(["noise-wrong"], *settings).report.exit_code == 1


def test_a_drift_limit_which_that_system_does_not_know_is_refused_there_too():
    with pytest.raises(ConfigError, match="lies under the noise"):
        run(["noise-reassociate"], SEED, "verify.drift={rtol: 0, atol: 1.0e-9}")


@each_of(
    "settings, tolerance, drift",
    (["verify.tolerance.rtol=0.001"], True, True),
    ([SEED, "verify.tolerance.rtol=0.001"], True, False),
    ([SEED, "verify.drift.rtol=0.001"], True, True),
    ([SEED], False, False),
)
def test_rounding_excuses_a_drift_that_the_seed_does_not_limit(settings, tolerance, drift):
    thresholds = Thresholds(default_config(settings).verify)
    assert thresholds.holds("tolerance") is tolerance
    assert thresholds.holds("drift") is drift


def test_a_default_under_the_noise_is_raised_and_that_is_said():
    report = run(["noise-reassociate"]).report
    (note,) = [n for n in report.notes if "the default drift limit of y is raised" in n]
    assert "10 times the noise" in note
    assert report.exit_code == 0, report.error
    assert report.passes[0].verdict is Verdict.PASSED


def test_the_spread_is_reported_for_each_engine():
    report = run(["noise-reassociate"]).report
    first = report.engines[0]
    levels = {spread.between for spread in first.spreads}
    assert any("optimization=all" in between for between in levels)
    assert {spread.output for spread in first.spreads} == {"y"}
    assert max(spread.max_abs for spread in first.spreads) > 0
    assert from_json(to_json(report)) == report


@passes.verify.tolerance()
@passes.register()
class NoiseRewrite(Transformation):
    """Divide by multiplying, and add biases before they are needed: correct everywhere."""

    def call(self, model):
        count = 0
        for node in list(model.graph):
            constants = [constant(value) for value in node.inputs]
            if node.op_type == "Div" and constants[1] is not None:
                count += 1
                inverse = added(model, f"inverse_{count}", 1 / constants[1])
                new = ir.node("Mul", [node.inputs[0], inverse])
            elif node.op_type == "Add" and sum(c is not None for c in constants) == 1:
                # A bias that is added in two parts rounds otherwise.
                count += 1
                index = next(i for i, c in enumerate(constants) if c is not None)
                part = (constants[index] / np.float32(3)).astype(np.float32)
                rest = added(model, f"rest_{count}", constants[index] - part)
                first = ir.node("Add", [node.inputs[1 - index], rest])
                first.outputs[0].name = f"partly_{count}"
                model.graph.insert_before(node, first)
                new = ir.node("Add", [first.outputs[0], added(model, f"part_{count}", part)])
            else:
                continue
            new.outputs[0].name = f"otherwise_{count}"
            model.graph.insert_before(node, new)
            node.outputs[0].replace_all_uses_with(new.outputs[0])
            model.graph.remove(node, safe=True)
        return ir.passes.PassResult(model, count > 0)


def constant(value):
    tensor = ir.convenience.get_const_tensor(value) if value is not None else None
    array = None if tensor is None else tensor.numpy()
    return array if array is not None and array.dtype == np.float32 else None


def added(model, name, array):
    tensor = ir.tensor(array, name=name)
    value = ir.Value(name=name, const_value=tensor, type=ir.TensorType(tensor.dtype))
    value.shape = tensor.shape
    model.graph.register_initializer(value)
    return value


def test_correct_rewrites_of_twelve_layers_are_not_accused():
    model = transformer(layers=12, hidden=32, heads=2, ffn=64, vocab=64)
    ranges = ["reference.ranges={input_ids: [0, 63], attention_mask: [1, 1]}"]
    settings = ["reproducers=false", "reference.samples=2", *ranges]
    config = default_config(settings, ["noise-rewrite"])
    report = run_pipeline(ir.from_proto(model), config).report
    assert report.exit_code == 0, report.error
    (done,) = report.passes
    assert done.verdict is Verdict.PASSED
    assert 0 < done.budget_spent < 1


def test_equality_alone_runs_nothing_twice(monkeypatch):
    runs = []
    prepare = OnnxRuntimeEngine.prepare

    def counted(engine, model):
        runs.append(sum(n.op_type == "Sqrt" for n in model.graph))
        return prepare(engine, model)

    monkeypatch.setattr(OnnxRuntimeEngine, "prepare", counted)
    assert run(["noise-swap"]).report.exit_code == 0
    # Original and result on both engines, and as deployed.
    assert sum(runs) == 6


def test_the_command_line_refuses_and_tells(tmp_path):
    onnx.save(onnx.parser.parse_model(MODEL), tmp_path / "m.onnx")
    base = ["run", "-v", "-o", tmp_path / "o.onnx", tmp_path / "m.onnx", "noise-reassociate"]
    refused = CliRunner().invoke(
        program, [str(a) for a in [*base, "-s", "verify.tolerance={rtol: 0, atol: 1.0e-9}"]]
    )
    assert isinstance(refused.exception, ConfigError)
    told = CliRunner().invoke(program, [str(a) for a in base]).output
    assert "y max abs" in told
    assert NOISE in told
    base.remove("-v")
    assert NOISE not in CliRunner().invoke(program, [str(a) for a in base]).output


@passes.verify.tolerance()
@passes.register()
class NoiseFault(Transformation):
    """Multiply by a factor that is wrong."""

    def call(self, model):
        node = next(n for n in model.graph if n.outputs[0].name == "y")
        half = ir.tensor(np.array([1010], np.float32), name="half")
        node.replace_input_with(1, ir.Value(name="half", const_value=half))
        model.graph.register_initializer(node.inputs[1])
        return ir.passes.PassResult(model, True)


def test_before_a_pass_is_blamed_the_original_is_run_a_second_time():
    report = run(["noise-fault"], "verify.scope=model").report
    assert report.passes[0].verdict is Verdict.FAILED
    assert "two runs of it" in {spread.between for spread in report.engines[0].spreads}


ILL = MODEL.replace("float[8, 64] y)", "float[8, 128] y)").replace(
    "y = Mul(b, k)",
    """million = Constant<value_float = 1000000.0>() h = Mul(b, million) r = Sin(h)
    q = Mul(x, k) y = Concat<axis = 1>(r, q)""",
)
"""Half of the output has no digit that is right, because a million lifts the noise."""


class NoiseScale(Transformation):
    """Multiply a value by a factor more."""

    value: str = "q"
    factor: float = 1.0

    def call(self, model):
        node = next(n for n in model.graph if n.outputs[0].name == self.value)
        factor = added(model, "factor", np.float32([self.factor]))
        new = ir.node("Mul", [node.inputs[0], factor])
        new.outputs[0].name = "scaled"
        model.graph.insert_before(node, new)
        node.replace_input_with(0, new.outputs[0])
        return ir.passes.PassResult(model, True)


passes.verify.tolerance()(passes.register()(NoiseScale))


def scaled(value, factor, *settings):
    """Return the report of a run that looks at the outputs of the model alone."""
    steps = [{"noise-scale": {"value": value, "factor": factor}}]
    options = {"passes": steps, "verify": {"scope": "model"}, "reproducers": False}
    config = config_from_data(options | dict(settings))
    return run_pipeline(ir.from_proto(onnx.parser.parse_model(ILL)), config).report


@each_of("factor", 1.0, 1.05, 2.0)
def test_noise_of_one_half_of_an_output_hid_a_factor_in_the_other(factor):
    report = scaled("q", factor)
    assert report.exit_code == (factor != 1)
    assert not report.not_verified
    told = [n for n in report.notes if "are raised" in n]
    assert len(told) == (factor != 1)  # only where the default fails
    assert all("less than 10 times the noise, which would hide faults" in n for n in told)


def test_what_only_noise_may_explain_is_not_judged():
    by_type = {"scope": "model", "tolerance": "default"}
    report = scaled("h", 1 + 2e-7, ("verify", by_type))
    assert report.exit_code == 4
    assert any("not judged" in reason for reason in report.not_verified)
    assert scaled("h", 1.5, ("verify", {**by_type, "tolerance": "derived"})).exit_code == 1


def test_the_noise_of_a_second_pair_of_runs_lifts_no_cap():
    one, other = ({"y": np.full(3, value, np.float32)} for value in (1.0, 1.5))
    runs = [OriginalRuns("onnxruntime", "two runs of it", [one], [other])] * 2
    thresholds = Thresholds(default_config([], ["cleanup"]).verify)
    _, limits = thresholds.above((Tolerance(), {}), runs, frozenset(), "drift")
    assert limits["y"].rtol == pytest.approx(LARGEST_NOISE_LIMIT)
    assert limits["y"].atol == LARGEST_NOISE_LIMIT
