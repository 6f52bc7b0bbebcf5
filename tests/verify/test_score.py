import math

import ml_dtypes
import numpy as np
import pytest

from onnx_passes.verify.score import resolution, score

NONE = frozenset()


def of(old, new, ignored=NONE):
    return score([{"y": old}], [{"y": new}], ignored)


def test_error_is_relative_to_the_largest_element():
    assert of(np.float64([0, -4]), np.float64([1, -4])) == 0.25
    assert of(np.float16([2]), np.float16([2])) == 0
    assert of(np.complex64([4j]), np.complex64([4j + 1])) == 0.25


def test_the_worst_sample_and_element_of_a_sequence_count():
    old = [{"y": [np.float32([1]), np.float32([2])]}] * 2
    new = [old[0], {"y": [np.float32([1]), np.float32([3])]}]
    assert score(old, new, NONE) == 0.5


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (np.float32([1]), np.float32([np.nan])),
        (np.float32([np.inf]), np.float32([-np.inf])),
        (np.float32([0]), np.float32([1e-30])),
        (np.float32([1]), np.float64([1])),
        (np.float32([1]), np.float32([[1]])),
        (np.int64([1]), np.int64([2])),
        (np.array(["a"], object), np.array(["b"], object)),
        ([np.float32([1])], []),
        (None, np.float32([1])),
    ],
)
def test_what_is_no_matter_of_rounding_is_infinitely_far(old, new):
    assert of(old, new) == math.inf


def test_specials_in_the_same_place_are_equal_and_do_not_hide_the_rest():
    old = np.float32([np.nan, np.inf, 2])
    assert of(old, old.copy()) == 0
    assert of(old, np.float32([np.nan, np.inf, 3])) == 0.5


def test_outputs_that_are_no_evidence_are_left_out():
    assert of(np.float32([1]), np.float32([2]), frozenset({"y"})) == 0
    assert score([{"y": None}], [{"z": None}], NONE) == math.inf


@pytest.mark.parametrize(
    ("kind", "eps"),
    [
        (np.float64, 2.0**-52),
        (np.float32, 2.0**-23),
        (np.complex64, 2.0**-23),
        (np.float16, 2.0**-10),
        (ml_dtypes.bfloat16, 2.0**-7),
        (np.int64, 0),
    ],
)
def test_resolution_is_the_rounding_error_of_the_type(kind, eps):
    assert resolution([{"y": np.zeros(2, kind)}], NONE) == eps


def test_resolution_is_that_of_the_coarsest_output():
    sample = {
        "y": np.zeros(2, np.float32),
        "z": np.zeros(2, np.float16),
        "i": np.zeros(2, int),
    }
    assert resolution([sample], NONE) == 2.0**-10
    assert resolution([sample], frozenset({"z"})) == 2.0**-23
