import math

import ml_dtypes
import numpy as np
import pytest

from onnx_passes.contracts import scores
from onnx_passes.contracts.scores import blocks, kind_of, kl_divergence
from onnx_passes.errors import ReferenceDataError, VerificationError
from tests.tables import each_of


@each_of(
    "dtype, kind",
    (np.float16, "float"),
    (ml_dtypes.bfloat16, "float"),
    (ml_dtypes.float8_e4m3fn, "float"),
    (ml_dtypes.float8_e5m2, "float"),
    (ml_dtypes.float4_e2m1fn, "float"),
    (ml_dtypes.int4, "int"),
    (ml_dtypes.uint2, "int"),
    (np.uint64, "int"),
    (np.complex64, "complex"),
    (bool, "bool"),
    (object, "string"),
    ("<U3", "string"),
    ("datetime64[s]", "other"),
    ([("a", int)], "other"),
)
def test_kind(dtype, kind):
    assert kind_of(np.dtype(dtype)) == kind


@each_of("shape", (), (0,), (3, 0), (7,), (3, 5, 2))
def test_blocks_cover_every_element_in_order(shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    for layout in (array, np.asfortranarray(array), array.T.copy().T):
        parts = list(blocks(layout, array, size=4))
        assert [x for _, (part, _) in parts for x in part] == list(range(array.size))
        assert [start for start, _ in parts] == list(range(0, array.size, 4))
        assert all(np.array_equal(a, b) for _, (a, b) in parts)


REFERENCE = [
    *(scores.max_abs_error, scores.max_rel_error, scores.rmse),
    *(scores.cosine, scores.snr, scores.psnr),
]
E = np.array([1.0, -2, 4])
P = np.array([1.0, -3, 4])


@each_of(
    "metric, value",
    (scores.max_abs_error, 1),
    (scores.max_rel_error, 0.5),
    (scores.rmse, math.sqrt(1 / 3)),
    (scores.cosine, 23 / math.sqrt(26 * 21)),
    (scores.snr, 10 * math.log10(21)),
    (scores.psnr, 10 * math.log10(16 * 3)),
)
@each_of("dtype", np.float64, np.float16, ml_dtypes.bfloat16, np.int8)
def test_value(metric, value, dtype):
    assert metric([P.astype(dtype)], [E.astype(dtype)]) == pytest.approx(value)


@each_of("metric, value", *list(zip(REFERENCE, [0, 0, 0, 1, math.inf, math.inf], strict=True)))
@each_of("signal", E, np.zeros(3), np.array([1, math.nan, -math.inf]), E.astype(np.complex64))
def test_identical_signals(metric, value, signal):
    assert metric([signal], [signal.copy()]) == pytest.approx(value)


@each_of("metric", *REFERENCE)
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


@each_of("metric", *REFERENCE, kl_divergence)
def test_shapes_are_never_broadcast(metric):
    with pytest.raises(VerificationError, match=r"shape \[3\] .* shape \[2,3\]"):
        metric([np.ones(3)], [np.ones((2, 3))])


def test_outputs_are_never_left_out():
    with pytest.raises(VerificationError, match="1 outputs cannot be measured against 2"):
        scores.rmse([E], [E, E])


def test_no_output_that_can_be_measured_is_no_success():
    assert math.isnan(scores.rmse([], []))
    assert math.isnan(scores.rmse([np.array(["a"])], [np.array(["a"])]))


def test_outputs_without_an_element_show_nothing():
    """A data set of no sample had a cosine of 1."""
    empty, one = np.zeros((0, 3), np.float32), np.ones((1, 3), np.float32)
    assert np.isnan(
        [scores.cosine([empty], [empty]), scores.top_1_agreement([empty], [empty])]
    ).all()
    assert scores.cosine([empty, one], [empty, one]) == 1


SCORES = np.array([[0.1, 0.7, 0.2], [0.5, 0.4, 0.1], [0.2, 0.3, 0.5]])


@each_of(
    "labels",
    np.array([1, 1, 2]),
    np.array([[1], [1], [2]], np.int32),
    np.array([1.0, 1, 2], np.float32),
)
def test_accuracy(labels):
    assert scores.accuracy([SCORES], [labels]) == pytest.approx(2 / 3)
    assert scores.top_k_accuracy(2, [SCORES], [labels]) == 1


def test_accuracy_of_pixels_has_the_classes_second():
    pixels = SCORES.T[None, :, :, None]  # [N,C,H,W] = [1,3,3,1]
    assert scores.accuracy([pixels], [np.array([[[1], [1], [2]]])]) == pytest.approx(2 / 3)


def test_constant_scores_gain_nothing_from_ties():
    labels = np.arange(4)
    assert scores.accuracy([np.zeros((4, 4))], [labels]) == 0.25
    assert scores.top_k_accuracy(2, [np.zeros((4, 4))], [labels]) == 0.5


def test_a_row_with_nan_is_wrong():
    row = np.array([[math.nan, 1.0]])
    assert scores.accuracy([row], [np.array([0])]) == 0
    assert scores.accuracy([row], [np.array([1])]) == 0


@each_of(
    "labels, complaint",
    (np.array([0, 1]), r"labels of shape \[2\] do not fit class scores of shape \[3,3\]"),
    (np.array([0, 1, 3]), "label 3 is none of the 3 classes"),
    (np.array([0, 1, -1]), "label -1 is none"),
    (np.array([0.5, 1, 2]), "class numbers, not float64"),
    (np.array(["a", "b", "c"]), "class numbers, not string"),
)
def test_says_what_is_wrong_with_labels(labels, complaint):
    with pytest.raises(ReferenceDataError, match=complaint):
        scores.accuracy([SCORES], [labels])


def test_counts_mispredictions():
    changed = SCORES.copy()
    changed[1] = [0.1, 0.4, 0.1]
    assert scores.count_mispredictions([SCORES * 2], [SCORES]) == 0
    assert scores.count_mispredictions([changed], [SCORES]) == 1
    changed[0, 1] = math.nan
    assert scores.count_mispredictions([changed], [SCORES]) == 2
    assert scores.count_mispredictions([changed], [changed]) == 0


def test_kl_divergence_of_probabilities():
    p, e = np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]])
    assert scores.kl_divergence([p], [e]) == pytest.approx(math.log(2))
    assert scores.kl_divergence([e], [p]) == math.inf
    assert scores.kl_divergence([e], [e]) == 0
    assert math.isnan(scores.kl_divergence([p * math.nan], [e]))
    assert math.isnan(scores.kl_divergence([p - 1], [e]))
    # Twice a distribution is not a distribution, though its shape is right.
    assert scores.kl_divergence([p * 2], [p]) == pytest.approx(1 - math.log(2))


def test_divergences_are_those_of_rows():
    rng = np.random.default_rng(0)
    theirs = rng.standard_normal((5, 4))
    ours = theirs + rng.standard_normal((5, 4)) * 0.1
    rows = scores.divergences([ours], [theirs])
    alone = [
        scores.kl_divergence([p[None]], [e[None]]) for p, e in zip(ours, theirs, strict=True)
    ]
    np.testing.assert_allclose(rows, alone)
    assert scores.kl_divergence([ours], [theirs]) == pytest.approx(rows.mean())
    assert scores.divergences([ours[:0]], [theirs[:0]]).shape == (0,)
