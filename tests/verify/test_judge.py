"""The one judge of values: limits, ignored values, samples, and what it says."""

import numpy as np

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.verify.judge import Promise, judge
from onnx_passes.verify.result import Verdict


def array(*numbers, dtype=np.float32):
    return np.array(numbers, dtype)


def test_the_worst_sample_counts_and_is_named():
    old = [{"y": array(1, 2)}] * 3
    new = [{"y": array(1, 2)}, {"y": array(1, 2.5)}, {"y": array(1, 9)}]
    check = judge(old, new, Promise(Equality()), names=[None, "zeros", "ones"])
    assert check.verdict is Verdict.FAILED
    assert check.sample == 2
    assert check.outputs[0].max_abs == 7
    assert check.reason.endswith("in sample 2 (ones)")
    assert "expected 2" in check.reason
    assert "got 9" in check.reason


def test_a_promise_is_called_by_its_contract():
    assert Promise(Tolerance(1e-3)).kind == "tolerance"
    assert Promise(Equality("outputs")).kind == "equality"
    assert Promise(Tolerance(), kind="drift").kind == "drift"


def test_the_limit_of_the_run_stands_in_place_of_that_of_the_contract():
    sides = [{"y": array(1.0)}], [{"y": array(1.01)}]
    assert judge(*sides, Promise(Tolerance(1e-4, 0))).verdict is Verdict.FAILED
    raised = Promise(Tolerance(1e-4, 0), Tolerance(0.1, 0))
    assert judge(*sides, raised).verdict is Verdict.PASSED
    single = Promise(Tolerance(0.1, 0), overrides={"y": Tolerance(0, 0)})
    assert judge(*sides, single).verdict is Verdict.FAILED


def test_small_elements_carry_the_error_of_large_ones_inside_a_model_alone():
    sides = [{"y": array(1000, 1e-3)}], [{"y": array(1000, 2e-2)}]
    limit = Tolerance(1e-4, 0)
    assert judge(*sides, Promise(limit)).verdict is Verdict.FAILED
    assert judge(*sides, Promise(limit, inside=True)).verdict is Verdict.PASSED


def test_the_sign_of_zero_counts_only_where_that_is_asked():
    sides = [{"y": array(0.0)}], [{"y": array(-0.0)}]
    assert judge(*sides, Promise(Equality())).verdict is Verdict.PASSED
    strict = Promise(Equality(), negative_zero=True)
    assert judge(*sides, strict).verdict is Verdict.FAILED


def test_values_that_the_original_does_not_repeat_are_no_evidence():
    sides = (
        [{"y": array(1), "r": array(1)}],
        [{"y": array(1), "r": array(5)}],
    )
    check = judge(*sides, Promise(Equality()), ignored=frozenset(["r"]))
    assert check.verdict is Verdict.PASSED
    assert [o.output for o in check.outputs] == ["y"]


def test_nothing_left_to_compare_is_not_verified():
    sides = [{"r": array(1)}], [{"r": array(1)}]
    check = judge(*sides, Promise(Equality()), ignored=frozenset(["r"]))
    assert check.verdict is Verdict.NOT_VERIFIED
    assert "another result each time: r" in check.reason


def test_no_samples_verify_nothing():
    assert judge([], [], Promise(Equality())).verdict is Verdict.NOT_VERIFIED


def test_nan_is_equal_to_nan_and_to_nothing_else():
    nan = array(float("nan"))
    assert judge([{"y": nan}], [{"y": nan}], Promise(Equality())).verdict is Verdict.PASSED
    wrong = judge([{"y": nan}], [{"y": array(1)}], Promise(Equality()))
    assert wrong.verdict is Verdict.FAILED


def test_another_shape_fails_and_is_told():
    check = judge([{"y": array(1, 2)}], [{"y": array(1)}], Promise(Tolerance()))
    assert check.verdict is Verdict.FAILED
    assert "shape" in check.reason
