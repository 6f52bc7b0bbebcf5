import numpy as np
import pytest

from onnx_passes.bench.runs import judges
from onnx_passes.errors import VerificationError
from tests.tables import each_of


def test_the_largest_come_first_ties_in_order_and_nan_last():
    assert judges.top_k(np.array([[1.0, np.nan, 3.0, 3.0]]), 4).tolist() == [[2, 3, 0, 1]]
    assert judges.top_k(np.array([5, 7]), 9).tolist() == [1, 0]


def test_one_output_may_be_named():
    made = judges.read_postprocess(["a:b:top-k=1"])
    values = {"a:b": np.array([1.0, 2.0]), "c": np.array([1.0, 2.0])}
    found = made(values, frozenset(values))
    assert found["a:b"].tolist() == [1]
    assert found["c"].tolist() == [1.0, 2.0]
    every = judges.read_postprocess(["top-k=1"])
    assert made(values, frozenset())["a:b"].tolist() == [1], "inner values may be named"
    assert every(values, frozenset())["a:b"].tolist() == [1.0, 2.0]


def verdicts(judge_, expected, actual):
    side = judges.SampleValues({"y": np.asarray(expected)}, {"y": np.asarray(actual)})
    return [check.passed for check in judge_(side)]


ONE, NEAR = np.ones(100, np.float32), np.ones(100, np.float32)
NEAR[0] = 2.0


def test_a_quantile_forgives_a_few_elements_and_no_nan():
    nan = ONE.copy()
    nan[0] = np.nan
    assert verdicts(judges.judge("quantile=0.99"), ONE, NEAR) == [True]
    assert verdicts(judges.judge("quantile=0.995"), ONE, NEAR) == [False]
    assert verdicts(judges.judge("quantile=0.5"), ONE, nan) == [False]


@each_of("text", "l2=10", "cosine=-1", "snr=-99", "psnr=-99", "quantile=0")
def test_no_judge_forgives_a_shape_or_a_type(text):
    assert verdicts(judges.judge(text), ONE, ONE[:50]) == [False]
    assert verdicts(judges.judge(text), ONE, ONE.astype(np.float64)) == [False]


def test_scores_leave_integers_exact():
    assert verdicts(judges.judge("cosine"), [1, 2], [1, 2]) == [True]
    assert verdicts(judges.judge("cosine"), [1, 2], [1, 3]) == [False]


def test_indices_may_move_by_so_many_places():
    assert verdicts(judges.Indices(0), [[1, 2, 3]], [[1, 2, 3]]) == [True]
    assert verdicts(judges.Indices(0), [[1, 2, 3]], [[2, 1, 3]]) == [False]
    assert verdicts(judges.Indices(1), [[1, 2, 3]], [[2, 1, 3]]) == [True]
    assert verdicts(judges.Indices(1), [[1, 2, 3]], [[3, 2, 1]]) == [False]
    assert verdicts(judges.Indices(9), [[1, 2, 3]], [[3, 2, 1]]) == [True]
    assert verdicts(judges.Indices(9), [[1, 2, 3]], [[3, 2, 4]]) == [False]


def test_indices_of_floats_say_how_to_make_some():
    (check,) = judges.Indices(1)(judges.SampleValues({"y": ONE}, {"y": NEAR}))
    assert "--postprocess top-k" in check.reason


def test_a_function_that_returns_nonsense_is_told():
    with pytest.raises(VerificationError, match="returned NoneType at 'y'"):
        verdicts(judges.Custom("m:f", lambda name, e, a: None), ONE, ONE)
    with pytest.raises(VerificationError, match="raised ZeroDivisionError"):
        verdicts(judges.Custom("m:f", lambda name, e, a: 1 / 0), ONE, ONE)
    assert verdicts(judges.Custom("m:f", lambda name, e, a: np.bool_(True)), ONE, ONE) == [
        True
    ]
