"""How often a model is run for checks of what passes changed in it."""

import numpy as np

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.pipeline.baseline import Baseline, EngineBaseline
from onnx_passes.pipeline.engine_check import RegionCheck
from onnx_passes.pipeline.recorder import Recorder
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.testing import parse
from onnx_passes.verify.evidence import Kind, Verdict
from onnx_passes.verify.judge import Promise
from tests.tables import each_of

HEAD = """(float[N, 4] x) => (float[N, 4] y) """
SAMPLES = [{"x": np.random.default_rng(n).random((n + 2, 4), np.float32)} for n in range(2)]


def check(original, before, after, contract, limit=1 << 20):
    baseline = Baseline(
        model(original), [bench := EngineBaseline(OnnxRuntimeEngine(), "each")], SAMPLES
    )
    limits = Tolerance(1e-3, 1e-4) if isinstance(contract, Tolerance) else None
    found = RegionCheck(
        Recorder(bench, limit),
        baseline,
        model(before),
        model(after),
        (),
        [Promise(contract, limits, inside=True)],
        untouched=original is before,
    ).run(None)
    return found, bench


def verdict(found):
    (check,) = found.checks
    return check.verdict


def model(body):
    return parse(HEAD + body)


IDENTITY = "{ a = Exp(x) i = Identity(a) b = Neg(i) c = Neg(b) y = Sin(c) }"
WITHOUT = "{ a = Exp(x) b = Neg(a) c = Neg(b) y = Sin(c) }"
SHORT = "{ a = Exp(x) c = Identity(a) y = Sin(c) }"


def test_the_original_is_recorded_once_after_passes_that_compute_nothing_else(nodes_run):
    found, bench = check(IDENTITY, WITHOUT, SHORT, Equality())
    assert verdict(found) is Verdict.PASSED
    assert {one.kind for one in found.evidence} == {Kind.EXECUTED}
    # One run gives the values inside and what every later model is held against.
    assert nodes_run[:2] == [5, 2]
    assert nodes_run[2:] == [3 + 2]  # both sides of the part that changed, on drawn values
    np.testing.assert_allclose(bench.original[0]["y"], np.sin(np.exp(SAMPLES[0]["x"])), 1e-5)


def test_the_original_is_run_beside_where_values_are_not_its_own(nodes_run):
    other = "{ a = Exp(x) b = Abs(a) c = Neg(b) y = Sin(c) }"
    changed = other.replace("y = Sin(c)", "d = Identity(c) e = Abs(d) f = Neg(e) y = Sin(f)")
    check(IDENTITY, other, changed, Equality())
    assert nodes_run[:2] == [5, 4]


LAYERS = "{ a = Exp(x) b = Mul(a, a) c = Sin(b) y = Neg(c) }"
FUSED = (
    "{ a = Exp(x) two = Constant<value_float = 2.0>() b = Pow(a, two) c = Sin(b) y = Neg(c) }"
)


def test_a_fault_is_found_on_recorded_values(nodes_run):
    wrong = FUSED.replace("2.0", "2.01")
    found, _ = check(LAYERS, LAYERS, wrong, Tolerance())
    assert verdict(found) is Verdict.FAILED
    assert [o.output for o in found.checks[0].outputs] == ["b"]
    # The new node alone, the old one in the same form, and both with what follows.
    assert nodes_run[:4] == [4, 1, 1, 3]


def test_what_earlier_nodes_took_fails_no_later_one(nodes_run):
    # Each step is within the limit; at the second value both together are not.
    before = """{
        k = Constant<value_float = 1.0>() a = Mul(x, k) e = Neg(a) b = Mul(e, k) y = Neg(b)
    }"""
    found, _ = check(before, before, before.replace("1.0", "1.0009"), Tolerance())
    assert verdict(found) is Verdict.PASSED
    assert nodes_run[:2] == [5, 2]
    assert nodes_run[2:] == [4]  # both sides of the two parts that changed, on drawn values


def test_a_weight_of_unknown_size_is_recorded_where_a_region_needs_it():
    # Weights that constants make are recorded ahead only where a small size is noted: here
    # after the pass alone, as where one folds the shapes of a quantised BERT.
    before = """{
        k = Constant<value_floats = [1.0, 2.0, 3.0, 4.0]>() w = Exp(k) a = Mul(x, w) y = Neg(a)
    }"""
    after = "<float[4] w>" + before.replace("w = Exp(k)", "h = Exp(k) w = Abs(h)")
    found, _ = check(before, before, after, Tolerance())
    assert verdict(found) is Verdict.PASSED
    wrong = after.replace("Abs(h)", "Sqrt(h)")
    found, _ = check(before, before, wrong, Tolerance())
    assert verdict(found) is Verdict.FAILED


COMPUTED = """{
    k = Constant<value_floats = [0.0, 1.0, 4.0, 9.0]>() w = Sqrt(k) a = Mul(x, w) b = Add(a, w)
    c = Neg(b) y = Sin(c)
}"""
FOLDED = "w = Constant<value_floats = [0.0, 1.0, 2.0, 3.0]>()"
RIGHT = COMPUTED.replace("w = Sqrt(k)", FOLDED)
NEARLY = RIGHT.replace("3.0]", "3.00001]")
WRONG = RIGHT.replace("3.0]", "3.1]")


@each_of("contract", Equality(), Tolerance(), ids=str)
def test_a_constant_equal_to_a_computed_value_makes_no_reader_new(nodes_run, contract):
    found, _ = check(COMPUTED, COMPUTED, RIGHT, contract)
    assert verdict(found) is Verdict.PASSED
    assert [o.output for o in found.checks[0].outputs] == ["w"]
    assert not found.moved
    assert nodes_run == [6]


def test_a_constant_that_is_not_quite_equal_is_followed_through_its_readers(nodes_run):
    found, _ = check(COMPUTED, COMPUTED, NEARLY, Equality())
    assert verdict(found) is Verdict.FAILED
    found, _ = check(COMPUTED, COMPUTED, NEARLY, Tolerance())
    assert verdict(found) is Verdict.PASSED
    assert found.moved
    assert [o.output for o in found.checks[0].outputs] == ["b", "a"]


def test_a_wrong_constant_fails():
    found, _ = check(COMPUTED, COMPUTED, WRONG, Tolerance())
    assert verdict(found) is Verdict.FAILED
