import math

import ml_dtypes
import numpy as np
import pytest

from onnx_passes.contracts import scores
from onnx_passes.contracts.classification import kl_divergence
from onnx_passes.errors import VerificationError

REFERENCE = [
    scores.max_abs_error,
    scores.max_rel_error,
    scores.rmse,
    scores.cosine,
    scores.snr,
    scores.psnr,
]
E = np.array([1.0, -2, 4])
P = np.array([1.0, -3, 4])


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        (scores.max_abs_error, 1),
        (scores.max_rel_error, 0.5),
        (scores.rmse, math.sqrt(1 / 3)),
        (scores.cosine, 23 / math.sqrt(26 * 21)),
        (scores.snr, 10 * math.log10(21)),
        (scores.psnr, 10 * math.log10(16 * 3)),
    ],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16, np.int8])
def test_value(metric, value, dtype):
    assert metric([P.astype(dtype)], [E.astype(dtype)]) == pytest.approx(value)


@pytest.mark.parametrize(
    ("metric", "value"), list(zip(REFERENCE, [0, 0, 0, 1, math.inf, math.inf], strict=True))
)
@pytest.mark.parametrize(
    "signal", [E, np.zeros(3), np.array([1, math.nan, -math.inf]), E.astype(np.complex64)]
)
def test_identical_signals(metric, value, signal):
    assert metric([signal], [signal.copy()]) == pytest.approx(value)


@pytest.mark.parametrize("metric", REFERENCE)
def test_a_new_nan_makes_the_result_nan(metric):
    assert math.isnan(metric([np.array([1, math.nan, 4])], [E]))
    assert math.isnan(metric([E, np.array([1, math.nan, 4])], [E, E]))
    assert math.isnan(metric([E], [np.array([1, math.nan, 4])]))


def test_a_new_infinity_is_an_infinite_error():
    wrong = [np.array([1, math.inf, 4])]
    assert scores.max_abs_error(wrong, [E]) == math.inf
    assert scores.rmse(wrong, [E]) == math.inf
    assert scores.snr(wrong, [E]) == -math.inf
    assert scores.psnr(wrong, [E]) == -math.inf
    assert math.isnan(scores.cosine(wrong, [E]))


def test_zero_vectors_have_a_cosine():
    assert scores.cosine([np.zeros(3)], [np.zeros(3)]) == 1
    assert scores.cosine([np.zeros(3)], [E]) == 0


def test_cosine_neither_overflows_nor_underflows():
    assert scores.cosine([E * 1e200], [E * 1e-200]) == pytest.approx(1)


def test_sums_are_float64():
    # 2^24 ones and a half are equal in float32.
    ones = np.ones(2**20, np.float16)
    assert scores.rmse([ones], [ones * 0]) == 1.0


def test_integers_do_not_wrap():
    low, high = np.array([-128], np.int8), np.array([127], np.int8)
    assert scores.max_abs_error([low], [high]) == 255
    assert scores.rmse([low], [high]) == 255


def test_unlike_outputs_are_not_pooled():
    small, large = np.array([1e-3]), np.array([1e3])
    assert scores.snr([small * 0, large], [small, large]) == pytest.approx(0)
    assert scores.rmse([small * 0, large], [small, large]) == pytest.approx(1e-3)


@pytest.mark.parametrize("metric", [*REFERENCE, kl_divergence])
def test_shapes_are_never_broadcast(metric):
    with pytest.raises(VerificationError, match=r"shape \[3\] .* shape \[2,3\]"):
        metric([np.ones(3)], [np.ones((2, 3))])


def test_outputs_are_never_left_out():
    with pytest.raises(VerificationError, match="1 outputs cannot be measured against 2"):
        scores.rmse([E], [E, E])


def test_no_output_that_can_be_measured_is_no_success():
    assert math.isnan(scores.rmse([], []))
    assert math.isnan(scores.rmse([np.array(["a"])], [np.array(["a"])]))
