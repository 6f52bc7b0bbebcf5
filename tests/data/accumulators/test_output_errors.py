"""What is added up in blocks is what the judge of single samples says."""

import json
import math

import ml_dtypes
import numpy as np
import pytest

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.contracts.scores import rmse, snr
from onnx_passes.data.accumulators.output_errors import Errors
from onnx_passes.verify.compare import compare
from onnx_passes.verify.tensor_difference import Limit

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


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", DTYPES)
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


@pytest.mark.parametrize("cuts", [(10,), (1, 2, 39), (7, 20, 33)])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
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


def test_an_output_without_elements_is_no_error():
    found = Errors(Limit(Tolerance()))
    found.update(np.arange(2), np.zeros((2, 0), np.float32), np.zeros((2, 0), np.float32))
    assert found.finish()["rmse"] is None
    assert not math.isnan(found.largest.worst)
