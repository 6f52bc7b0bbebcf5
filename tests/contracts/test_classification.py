import math

import numpy as np
import pytest

from onnx_passes.contracts import classification
from onnx_passes.errors import ReferenceDataError

SCORES = np.array([[0.1, 0.7, 0.2], [0.5, 0.4, 0.1], [0.2, 0.3, 0.5]])


@pytest.mark.parametrize(
    "labels",
    [
        np.array([1, 1, 2]),
        np.array([[1], [1], [2]], np.int32),
        np.array([1.0, 1, 2], np.float32),
    ],
)
def test_accuracy(labels):
    assert classification.accuracy([SCORES], [labels]) == pytest.approx(2 / 3)
    assert classification.top_k_accuracy(2, [SCORES], [labels]) == 1


def test_accuracy_of_pixels_has_the_classes_second():
    pixels = SCORES.T[None, :, :, None]  # [N,C,H,W] = [1,3,3,1]
    assert classification.accuracy([pixels], [np.array([[[1], [1], [2]]])]) == pytest.approx(
        2 / 3
    )


def test_accuracy_of_class_numbers():
    assert classification.accuracy([np.array([[1], [0]])], [np.array([1, 1])]) == 0.5


def test_constant_scores_gain_nothing_from_ties():
    labels = np.arange(4)
    assert classification.accuracy([np.zeros((4, 4))], [labels]) == 0.25
    assert classification.top_k_accuracy(2, [np.zeros((4, 4))], [labels]) == 0.5


def test_a_row_with_nan_is_wrong():
    row = np.array([[math.nan, 1.0]])
    assert classification.accuracy([row], [np.array([0])]) == 0
    assert classification.accuracy([row], [np.array([1])]) == 0


@pytest.mark.parametrize(
    ("labels", "complaint"),
    [
        (np.array([0, 1]), r"labels of shape \[2\] do not fit class scores of shape \[3,3\]"),
        (np.array([0, 1, 3]), "label 3 is none of the 3 classes"),
        (np.array([0, 1, -1]), "label -1 is none"),
        (np.array([0.5, 1, 2]), "class numbers, not float64"),
        (np.array(["a", "b", "c"]), "class numbers, not string"),
    ],
)
def test_says_what_is_wrong_with_labels(labels, complaint):
    with pytest.raises(ReferenceDataError, match=complaint):
        classification.accuracy([SCORES], [labels])


def test_asks_for_no_more_classes_than_there_are():
    with pytest.raises(ReferenceDataError, match="5 classes, and the scores have 3"):
        classification.top_k_accuracy(5, [SCORES], [np.array([0, 1, 2])])


def test_counts_mispredictions():
    changed = SCORES.copy()
    changed[1] = [0.1, 0.4, 0.1]
    assert classification.count_mispredictions([SCORES * 2], [SCORES]) == 0
    assert classification.count_mispredictions([changed], [SCORES]) == 1
    changed[0, 1] = math.nan
    assert classification.count_mispredictions([changed], [SCORES]) == 2
    assert classification.count_mispredictions([changed], [changed]) == 0


def test_kl_divergence_of_probabilities():
    p, e = np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]])
    assert classification.kl_divergence([p], [e]) == pytest.approx(math.log(2))
    assert classification.kl_divergence([e], [p]) == math.inf
    assert classification.kl_divergence([e], [e]) == 0
    assert math.isnan(classification.kl_divergence([p * math.nan], [e]))
    assert math.isnan(classification.kl_divergence([p - 1], [e]))
    # Twice a distribution is not a distribution, though its shape is right.
    assert classification.kl_divergence([p * 2], [p]) == pytest.approx(1 - math.log(2))


def test_divergences_are_those_of_rows():
    rng = np.random.default_rng(0)
    theirs = rng.standard_normal((5, 4))
    ours = theirs + rng.standard_normal((5, 4)) * 0.1
    rows = classification.divergences([ours], [theirs])
    alone = [
        classification.kl_divergence([p[None]], [e[None]])
        for p, e in zip(ours, theirs, strict=True)
    ]
    np.testing.assert_allclose(rows, alone)
    assert classification.kl_divergence([ours], [theirs]) == pytest.approx(rows.mean())
    assert classification.divergences([ours[:0]], [theirs[:0]]).shape == (0,)


def test_kl_divergence_of_logits():
    logits = np.array([[3.0, 1.0], [100.0, -2000.0]], np.float32)
    assert classification.kl_divergence([logits + 5], [logits]) == pytest.approx(0, abs=1e-12)
    p, q = 1 / (1 + math.exp(-2)), 1 / (1 + math.exp(-1))
    want = p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
    got = classification.kl_divergence([np.array([[2.0, 1]])], [np.array([[3.0, 1]])])
    assert got == pytest.approx(want)
