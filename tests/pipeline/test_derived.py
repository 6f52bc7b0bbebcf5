"""If the limit of a type does not separate rounding from a fault, doubles decide."""

from types import SimpleNamespace

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.configs.sections import OutputTolerance, Verify
from onnx_passes.contracts import Tolerance
from onnx_passes.passes.base import RewriteRulePass, Transformation
from onnx_passes.pipeline.culprit import Judgement
from onnx_passes.pipeline.output_checks import Thresholds
from onnx_passes.pipeline.rounding import (
    Cause,
    PartInFloat64,
    excuse_by_cause,
    find_cause,
    is_doubtful,
)
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.testing import parse
from onnx_passes.verify.evidence import Check, OutputCheck, Verdict
from onnx_passes.verify.judge import default_tolerance
from onnx_passes.verify.obligations import Obligation
from tests.tables import each_of

SUM = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[1000000] x) => (float[1] y) <int64[1] axes = {0}> { y = ReduceSum(x, axes) }"""
SOFTMAX = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[2,100000] x) => (float[2,100000] y) { y = Softmax(x) }"""
FAR = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[8,768] x) => (float[8,768] y)
    <float mean = {10000.0}, float[1] one = {1.0}, int64[1] size = {768}> {
      far = Add(x, mean) s = Expand(one, size) y = LayerNormalization(far, s) }"""


class Factor(Transformation, RewriteRulePass):
    """A rewrite whose result may be off by a factor."""

    factor: float = 1.0

    def scaled(self, op, x):
        return x if self.factor == 1 else op.Mul(x, op.Constant(value_float=self.factor))


class SumOfRows(Factor):
    """Sum a vector by rows."""

    def pattern(self, op, x, axes):
        return op.ReduceSum(x, axes)

    def check(self, _, x, axes):
        return x.producer() is None

    def rewrite(self, op, x, axes):
        rows = op.Reshape(x, op.Constant(value_ints=[1000, 1000]))
        each = op.ReduceSum(rows, op.Constant(value_ints=[1]), keepdims=0)
        return self.scaled(op, op.ReduceSum(each, op.Constant(value_ints=[0])))


class SumInRows(SumOfRows):
    """Sum a vector that is computed by rows."""

    def check(self, _, x, axes):
        return x.producer() is not None and x.producer().op_type == "Mul"


class SoftmaxByFormula(Factor):
    """Write Softmax as its formula."""

    def pattern(self, op, x):
        return op.Softmax(x)

    def rewrite(self, op, x):
        last = op.Constant(value_ints=[-1])
        e = op.Exp(op.Sub(x, op.ReduceMax(x, last)))
        return self.scaled(op, op.Div(e, op.ReduceSum(e, last)))


class NormalizationByFormula(Factor):
    """Write LayerNormalization as its formula, or as one that loses digits."""

    of_squares: bool = False

    def pattern(self, op, x, s):
        return op.LayerNormalization(x, s)

    def rewrite(self, op, x, s):
        last = op.Constant(value_ints=[-1])
        mean = op.ReduceMean(x, last)
        d = op.Sub(x, mean)
        if self.of_squares:
            squares = op.ReduceMean(op.Mul(x, x), last)
            variance = op.Abs(op.Sub(squares, op.Mul(mean, mean)))
        else:
            variance = op.ReduceMean(op.Mul(d, d), last)
        root = op.Sqrt(op.Add(variance, op.Constant(value_float=1e-5)))
        return self.scaled(op, op.Mul(op.Div(d, root), s))


@pytest.fixture(autouse=True)
def own_passes(own_registry):
    for cls in (SumOfRows, SumInRows, SoftmaxByFormula, NormalizationByFormula):
        passes.verify.tolerance(passes.register()(cls))


CASES = [
    (SUM, "sum-of-rows"),
    (SOFTMAX, "softmax-by-formula"),
    (FAR, "normalization-by-formula"),
]


def run(text, name, tolerance="derived", **options):
    config = config_from_data(
        {"passes": [{name: options}], "verify": {"tolerance": tolerance}, "reproducers": False}
    )
    return run_pipeline(ir.from_onnx_text(text), config)


@each_of("text, name", *CASES)
def test_sums_in_another_order_and_formulas_far_from_zero_pass(text, name):
    done = run(text, name)
    assert done.error is None
    assert not done.report.not_verified
    assert done.report.passes[0].verdict is Verdict.PASSED


@each_of("factor, right", (1.0, True), (1.0001, False))
def test_a_part_of_much_work_is_evaluated_before_it_is_refused(monkeypatch, factor, right):
    """PicoDet was refused: five convolutions of a picture were too many for float64."""
    monkeypatch.setattr("onnx_passes.pipeline.rounding.MOST_WORK", 0)
    done = run(SUM, "sum-of-rows", factor=factor)
    assert (done.error is None) is right
    assert right or "in double precision both sides are" in str(done.error)


@each_of("text, name", *CASES)
def test_a_factor_of_one_ten_thousandth_in_them_fails(text, name):
    done = run(text, name, factor=1.0001)
    assert "in double precision both sides are" in str(done.error)
    (blame,) = done.report.passes[0].blame
    assert blame.rule == name


def test_a_formula_that_loses_all_digits_fails():
    error = str(run(FAR, "normalization-by-formula", of_squares=True).error)
    assert "farther from float64" in error or "not within tolerance" in error


@each_of("text, name", CASES[0], CASES[2])
def test_limits_of_the_type_refuse_them(text, name):
    assert "not within tolerance" in str(run(text, name, "default").error)


def test_the_absolute_part_of_the_limit_of_the_type_hides_a_factor():
    assert run(SOFTMAX, "softmax-by-formula", "default", factor=1.0001).error is None


def test_a_limit_that_was_given_holds():
    given = {"rtol": 1e-3, "atol": 1e-3}
    assert run(SOFTMAX, "softmax-by-formula", given, factor=1.0001).error is None
    assert run(SUM, "sum-of-rows", {"rtol": 1e-9, "atol": 0.0}).error is not None


def test_only_what_the_absolute_part_allows_is_doubtful():
    check = OutputCheck("y", True, max_abs=1e-7, rtol=1e-6, atol=1e-5, limit=1.1e-5)
    assert not is_doubtful(check)
    assert is_doubtful(
        OutputCheck("y", True, max_abs=5e-6, rtol=1e-6, atol=1e-5, limit=1.1e-5)
    )
    assert not is_doubtful(OutputCheck("y", False, max_abs=1.0, atol=1e-5, limit=1.1e-5))


ROUNDS = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[4] x) => (float[4] y) <float k = {K}> { a = OP(x, k) y = ROUND(a) }"""


def cause_of(before, after, x, old, new):
    """Return why ``y`` differs between two models on one sample."""
    sides = [
        (model, tuple(model.graph))
        for model in (ir.from_onnx_text(text) for text in (before, after))
    ]
    pairs = [(np.float32(old), np.float32(new))]
    return find_cause(Obligation("y", "y"), *sides, [{"x": np.float32(x)}], pairs)


def rounding(op, k, by="Round"):
    return ROUNDS.replace("OP", op).replace("K", str(k)).replace("ROUND", by)


def test_elements_next_to_a_step_are_undecided_and_counted():
    before, after = rounding("Mul", 0.1), rounding("Div", 10.0)
    found = cause_of(before, after, [25, 33, 48, 7], [2, 3, 5, 1], [3, 3, 5, 1])
    assert found.cause is Cause.ROUNDING
    assert found.undecided == 1
    assert "1 element is within rounding of a step" in found.text


def test_an_element_far_from_a_step_is_not_undecided():
    before, after = rounding("Mul", 0.1), rounding("Div", 10.0)
    found = cause_of(before, after, [25, 33, 48, 7], [2, 3, 5, 1], [2, 4, 5, 1])
    assert found.cause is Cause.UNKNOWN


def test_another_way_of_rounding_is_no_rounding_error():
    before = rounding("Mul", 0.5)
    found = cause_of(
        before, rounding("Mul", 0.5, "Floor"), [5, 1, 3, 7], [2, 0, 2, 4], [2, 0, 1, 3]
    )
    assert found.cause is Cause.UNKNOWN


def test_a_part_whose_values_are_not_recorded_is_unknown():
    model = ir.from_onnx_text(rounding("Mul", 0.1))
    side = model, tuple(model.graph)
    pairs = [(np.float32([1]), np.float32([2]))]
    assert find_cause(Obligation("y", "y"), side, side, [{}], pairs).cause is Cause.UNKNOWN


DEFAULTS = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[1000000] x, float[1] k) => (float[1] y)
    <float[1] k = {3.0}, int64[1] axes = {0}> { a = Mul(x, k) y = ReduceSum(a, axes) }"""


def test_outputs_are_asked_too_where_weights_are_inputs():
    done = run(DEFAULTS, "sum-in-rows")
    assert done.error is None
    told = ("double precision", "where weights and inputs move")
    assert any(word in (c.reason or "") for c in done.report.final for word in told)


def test_infinities_on_both_sides_raise_no_warning():
    before, after = rounding("Mul", 0.1, "Neg"), rounding("Div", 10.0, "Neg")
    values = [np.inf, -np.inf, np.nan, 3]
    with np.errstate(all="raise"):
        found = cause_of(before, after, values, [0, 0, 0, -0.3], [0, 0, 0, -0.31])
    assert found.cause is Cause.LOSS


@each_of(
    "given, limit",
    ({}, Tolerance(None, 0.0)),
    ({"rtol": 1e-3, "atol": 0.0}, Tolerance(1e-3, 0.0)),
)
def test_a_culprit_is_sought_under_the_limit_that_decided(given, limit):
    wrong = OutputCheck("y", False, max_abs=1.0, rtol=1e-3, atol=0.0, limit=1e-3)
    check = Check("tolerance", Verdict.FAILED, "onnxruntime", outputs=(wrong,))
    thresholds = Thresholds(Verify(tolerance=OutputTolerance(**given)))
    state = SimpleNamespace(comparing=SimpleNamespace(thresholds=thresholds))
    assert Judgement(state, (), check, [Tolerance()]).limits[0] == limit


PRODUCT = "(float[2,3] x, float[3,2] w) => (float[2,2] y) { y = MatMul(x, w) }"
WORK = 2 * 2 * 3
"""Products of one sample of it."""


def product(samples, after=PRODUCT):
    """Return what is asked of a product, whose results are off by one rounding."""
    rng = np.random.default_rng(0)
    feeds = [
        {
            name: rng.standard_normal(shape).astype(np.float32)
            for name, shape in (("x", (2, 3)), ("w", (3, 2)))
        }
        for _ in range(samples)
    ]
    exact = [np.float32(row["x"].astype(np.float64) @ row["w"]) for row in feeds]
    pairs = [(right, np.nextafter(right, np.float32(9))) for right in exact]
    models = parse(PRODUCT), parse(after)
    sides = [(model, tuple(model.graph)) for model in models]
    return models, (Obligation("y", "y"), *sides, feeds, pairs)


def test_rounding_of_a_model_of_much_work_is_rounding(monkeypatch):
    """A diffusion network was refused: its convolutions were too many for float64."""
    monkeypatch.setattr("onnx_passes.pipeline.rounding.MOST_WORK", 0)
    _, asked = product(1)
    assert find_cause(*asked).cause is Cause.TOO_LARGE
    assert find_cause(*asked, beyond=[0]).cause is Cause.ROUNDING


@each_of("large, cause", (12582912, Cause.UNKNOWN), (16, Cause.ROUNDING))
def test_a_sum_with_a_large_number_that_is_taken_away_rounds_on_purpose(large, cause):
    """So x + 1.5 * 2^23 - 1.5 * 2^23 was replaced by x."""
    before = parse(f"""(float[64] x) => (float[64] y)
        <float k = {{{large}}}> {{ a = Add(x, k) y = Sub(a, k) }}""")
    after = parse("(float[64] x) => (float[64] y) { y = Identity(x) }")
    x = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    pairs = [(x + np.float32(large) - np.float32(large), x)]
    sides = [(model, tuple(model.graph)) for model in (before, after)]
    assert find_cause(Obligation("y", "y"), *sides, [{"x": x}], pairs).cause is cause


@each_of("times, cause", (6, Cause.ROUNDING), (12, Cause.LOSS))
def test_a_long_sum_may_round_as_often_as_another_kernel_does(times, cause):
    """A network of 11,616 terms was refused: a MatMul rounds four times what its Gemm did."""
    model = parse(
        "(float[1,4096] x, float[4096,32] w) => (float[1,32] y) { y = MatMul(x, w) }"
    )
    rng = np.random.default_rng(0)
    feeds = {v.name: rng.random(v.shape.numpy(), np.float32) for v in model.graph.inputs}
    exact = feeds["x"].astype(np.float64) @ feeds["w"]
    errors = rng.standard_normal(exact.shape) * 1e-7 * exact
    pairs = [tuple(np.float32(exact + n * errors) for n in (1, times))]
    side = model, tuple(model.graph)
    assert find_cause(Obligation("y", "y"), side, side, [feeds], pairs).cause is cause


@each_of(
    "factor, beyond, cause",
    ("1", [1], Cause.ROUNDING),
    ("1", [0, 1], Cause.TOO_LARGE),
    ("1", [0, 1, 2], Cause.TOO_LARGE),
    ("1", [], Cause.TOO_LARGE),
    ("1.001", [1], Cause.FUNCTION),
)
def test_samples_within_their_limit_are_left_out_of_too_much_work(
    monkeypatch, factor, beyond, cause
):
    """A latent U-Net was refused: on six samples it took 2^30.6 products, on one 2^27.8."""
    monkeypatch.setattr("onnx_passes.pipeline.rounding.PATIENT_WORK", 2 * WORK + 16)
    after = f"""(float[2,3] x, float[3,2] w) => (float[2,2] y)
        <float k = {{{factor}}}> {{ p = MatMul(x, w) y = Mul(p, k) }}"""
    assert find_cause(*product(3, after)[1], beyond=beyond).cause is cause


def test_one_other_sample_shows_a_fault_that_those_beyond_their_limit_hide(monkeypatch):
    """A floor that only the first sample reaches, by less than its limit."""
    monkeypatch.setattr("onnx_passes.pipeline.rounding.PATIENT_WORK", 2 * WORK + 16)
    _, (_, _, _, feeds, pairs) = product(3)
    feeds[0] = {name: 10 * value for name, value in feeds[0].items()}
    right = np.float32(feeds[0]["x"].astype(np.float64) @ feeds[0]["w"])
    floor = np.float32(right.min() + 1e-6 * abs(right.min()))
    pairs[0] = right, np.maximum(right, floor)
    assert default_tolerance(right.dtype)[0] > 1e-6
    assert all(old.min() > floor for old, _ in pairs[1:])
    after = f"""(float[2,3] x, float[3,2] w) => (float[2,2] y)
        <float k = {{{floor}}}> {{ p = MatMul(x, w) y = Max(p, k) }}"""
    sides = [(model, tuple(model.graph)) for model in (parse(PRODUCT), parse(after))]
    alone = find_cause(Obligation("y", "y"), *sides, feeds[1:2], pairs[1:2], [0])
    assert alone.cause is Cause.ROUNDING
    found = find_cause(Obligation("y", "y"), *sides, feeds, pairs, [1])
    assert found.cause is Cause.FUNCTION


@each_of("far, verdict", (1, Verdict.PASSED), (2, Verdict.FAILED))
def test_a_sample_that_a_pass_moved_too_far_is_not_left_out(monkeypatch, far, verdict):
    """It may be near to the original, and far from the model accepted last."""
    monkeypatch.setattr("onnx_passes.pipeline.rounding.PATIENT_WORK", 2 * WORK)
    models, (_, _, _, feeds, pairs) = product(3)
    rows = [({"y": old}, {"y": new}) for old, new in pairs]
    accepted = [{"y": new + np.float32(k < far)} for k, (_, new) in enumerate(pairs)]
    wrong = OutputCheck("y", False, max_abs=1.0, rtol=1e-6, atol=1e-6)
    check = Check("tolerance", Verdict.FAILED, outputs=(wrong,))
    assert excuse_by_cause(check, models, feeds, rows, accepted).verdict is verdict


@each_of("factor, cause, count", (3.0, Cause.ROUNDING, 1), (3.1, Cause.FUNCTION, 8))
def test_constants_are_rounded_until_that_explains_enough(monkeypatch, factor, cause, count):
    tried, spread = [], PartInFloat64.spread
    monkeypatch.setattr(
        PartInFloat64, "spread", lambda self, *a: tried.append(self) or spread(self, *a)
    )
    before, after = rounding("Mul", 0.3333333, "Neg"), rounding("Div", factor, "Neg")
    x = np.float32([0.1, 0.7, -1.3, 5.0])
    found = cause_of(before, after, x, -x * np.float32(0.3333333), -x / np.float32(factor))
    assert (found.cause, len(tried)) == (cause, count)
