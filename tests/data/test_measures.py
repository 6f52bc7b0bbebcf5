import json
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.contracts.scores import accuracy, rmse, snr
from onnx_passes.data.measures import Classes, Errors, ExactSum
from onnx_passes.verify.judge import Limit, compare
from tests.tables import each_of

CASES = {
    "default": (Limit(Tolerance()), Tolerance()),
    "loose": (Limit(Tolerance(1e-2, 1e-2)), Tolerance(1e-2, 1e-2)),
    "equality": (Limit(), Equality()),
    "inner": (Limit(Tolerance(1e-3, 1e-6), scale_by_max=True), Tolerance(1e-3, 1e-6)),
}
DTYPES = [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, np.int64, np.uint8, np.bool_]


def pair(dtype, seed=0, count=40):
    rng = np.random.default_rng(seed)
    old = rng.normal(size=(count, 3, 2)) * 10
    new = old + rng.normal(size=old.shape) * 10.0 ** rng.integers(-9, 1, (count, 1, 1))
    new[rng.random(old.shape) < 0.5] = old[rng.random(old.shape) < 0.5].mean()
    old, new = np.abs(old).astype(dtype), np.abs(new).astype(dtype)
    same = rng.random(count) < 0.5
    new[same] = old[same]
    if np.dtype(dtype).kind == "f":
        for place, (a, b) in enumerate(
            [(np.nan, np.nan), (np.nan, 1), (np.inf, np.inf), (np.inf, -np.inf), (0.0, -0.0)]
        ):
            old[place, 0, 0], new[place, 0, 0] = a, b
    return old, new


def added(limit, old, new, cuts=()):
    parts = []
    rows = np.arange(len(old))
    for chosen in np.split(rows, cuts):
        part = Errors(limit)
        part.update(chosen, old[chosen], new[chosen])
        parts.append(part)
    return parts


@each_of("case", *CASES)
@each_of("dtype", *DTYPES)
def test_the_samples_that_fail_are_those_that_the_judge_refuses(case, dtype):
    limit, contract = CASES[case]
    old, new = pair(dtype)
    (found,) = added(limit, old, new)
    checks = [
        compare({"y": a}, {"y": b}, contract, scale_by_max=limit.scale_by_max)[0]
        for a, b in zip(old, new, strict=True)
    ]
    assert found.counts["failing_samples"] == sum(not check.passed for check in checks)
    assert found.counts["failing_elements"] == sum(check.mismatched for check in checks)


@each_of("cuts", (10,), (1, 2, 39), (7, 20, 33))
@each_of("dtype", np.float32, np.int64)
def test_parts_merge_in_any_grouping_to_the_same_state(dtype, cuts):
    limit = Limit(Tolerance())
    old, new = pair(dtype)
    first, *rest = added(limit, old, new, cuts)
    for part in rest:
        first.merge(part)
    *others, last = added(limit, old, new, cuts)
    for part in reversed(others):
        part.merge(last)
        last = part
    assert first.to_json() == last.to_json()
    kept = Errors(limit)
    kept.load(json.loads(json.dumps(first.to_json())))
    assert kept.finish() == first.finish()


def test_the_numbers_are_those_of_the_metrics():
    rng = np.random.default_rng(1)
    old = rng.normal(size=(50, 7))
    new = old + rng.normal(size=old.shape) * 1e-3
    (found,) = added(Limit(Tolerance()), old, new)
    told = found.finish()
    assert told["rmse"] == pytest.approx(rmse([new], [old]))
    assert told["sqnr_db"] == pytest.approx(snr([new], [old]))
    assert told["max_abs"] == np.abs(new - old).max()
    assert told["largest"][0][1] == np.abs(new - old).max(axis=1).argmax()
    cosines = [
        a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(old, new, strict=True)
    ]
    assert told["mean_cosine"] == pytest.approx(np.mean(cosines))


def test_other_shapes_and_types_fail_with_their_reason():
    found = Errors(Limit(Tolerance()))
    found.update(np.arange(2), np.zeros((2, 3), np.float32), np.zeros((2, 4), np.float32))
    found.update(np.arange(2, 4), np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float64))
    assert found.finish()["reasons"] == {
        "dtype is float64, expected float32": 2,
        "shape is [4], expected [3]": 2,
    }
    assert found.counts["failing_samples"] == 4


def drawn(classes, count=200, seed=0):
    rng = np.random.default_rng(seed)
    old = rng.normal(size=(count, classes)).astype(np.float32)
    new = (old + rng.normal(size=old.shape) * 0.3).astype(np.float32)
    return old, new, rng.integers(0, classes, count)


def counted(old, new, labels, cuts=()):
    parts = []
    rows = np.arange(len(old))
    for chosen in np.split(rows, cuts):
        part = Classes()
        part.update(
            chosen, old[chosen], new[chosen], None if labels is None else labels[chosen]
        )
        parts.append(part)
    return parts


@each_of("classes", 2, 120)
def test_counts_are_those_of_the_metrics(classes):
    old, new, labels = drawn(classes)
    (found,) = counted(old, new, labels)
    told = found.finish()
    assert told["accuracy_left"] == accuracy([old], [labels])
    assert told["accuracy_right"] == accuracy([new], [labels])
    assert told["flips"] == (old.argmax(1) != new.argmax(1)).sum()


def test_parts_merge_to_the_whole_through_json():
    old, new, labels = drawn(4)
    first, *rest = counted(old, new, labels, (3, 50, 120))
    for part in rest:
        kept = Classes()
        kept.load(json.loads(json.dumps(part.to_json())))
        first.merge(kept)
    (whole,) = counted(old, new, labels)
    one, other = first.to_json(), whole.to_json()
    del one["divergence"], other["divergence"]  # each block is rounded by itself
    assert one == other
    assert first.finish()["mean_kl"] == pytest.approx(whole.finish()["mean_kl"])


def test_a_row_with_nan_has_no_class():
    old = np.array([[1, 0], [0, 1], [0, 1]], np.float32)
    new = np.array([[1, 0], [1, 0], [0, np.nan]], np.float32)
    (found,) = counted(old, new, np.array([0, 1, 1]))
    told = found.to_json()
    assert told["paired"] == {"both": 1, "only_left": 2, "only_right": 0, "neither": 0}
    assert [row for _, row in told["lost"]] == [1, 2]


def test_places_of_an_image_are_rows_of_their_sample():
    old = np.zeros((2, 3, 4, 4), np.float32)
    labels = np.zeros((2, 4, 4), np.int64)
    new = old.copy()
    new[1, 2, 0, 0] = 1
    (found,) = counted(old, new, labels)
    assert (found.rows, found.flips) == (32, 1)
    assert found.flipped.samples[0][1] == 1


FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def total(values):
    found = ExactSum()
    for value in values:
        found.add(value)
    return found


def copied(total):
    found = ExactSum()
    found.load(json.loads(json.dumps(total.to_json())))
    return found


@settings(suppress_health_check=[HealthCheck.too_slow])  # a busy machine
@given(st.lists(FLOATS, max_size=20), st.randoms())
def test_the_order_does_not_matter_and_the_sum_is_rounded_once(values, random):
    shuffled = list(values)
    random.shuffle(shuffled)
    one, other = total(values), total(shuffled)
    assert one.to_json() == other.to_json()
    try:
        assert one.value == math.fsum(values)
    except OverflowError:  # of fsum's own partial sums
        assert abs(one.value) > 1e300


@given(st.lists(FLOATS, max_size=12), st.integers(0, 12))
def test_parts_add_up_to_the_whole_through_json(values, cut):
    left, right = (copied(total(v)) for v in (values[:cut], values[cut:]))
    left.merge(right)
    assert left.to_json() == total(values).to_json()


def test_what_is_not_finite_makes_the_sum_so():
    assert math.isnan(total([1.0, math.nan]).value)
    assert total([math.inf]).not_finite == 1
