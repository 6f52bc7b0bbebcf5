import json
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onnx_passes.data.exact_sums import (
    STEPS,
    ExactSum,
    LogHistogram,
    number,
    plain,
    upper_edge,
)

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


def test_what_cancels_leaves_what_is_small():
    assert total([1e308, 1.0, -1e308]).value == 1.0
    assert total([5e-324] * 3).value == 1.5e-323


def test_what_is_not_finite_makes_the_sum_so():
    assert math.isnan(total([1.0, math.nan]).value)
    assert total([math.inf]).not_finite == 1


def test_the_state_is_bounded():
    big = total(np.random.default_rng(0).normal(size=5000) * 1e300)
    assert len(json.dumps(big.to_json())) < 700


def test_json_has_all_numbers():
    for value in (1.5, math.inf, -math.inf):
        assert number(json.loads(json.dumps(plain(value)))) == value
    assert math.isnan(number(plain(math.nan)))


def counted(values):
    found = LogHistogram()
    found.add(np.asarray(values, np.float64))
    return found


def test_quantiles_are_within_an_eighth():
    values = np.random.default_rng(0).lognormal(sigma=4, size=20_000)
    found = counted(values)
    for share in (0.01, 0.5, 0.9, 0.999):
        exact = np.quantile(values, share, method="inverted_cdf")
        assert exact <= found.quantile(share) <= exact * (1 + 1 / STEPS) * (1 + 1e-12)


def test_zeros_and_what_is_not_finite_are_counted_apart():
    found = counted([0, 0, 0, 1, np.inf, np.nan])
    assert (found.zeros, found.not_finite, found.count) == (3, 2, 4)
    assert found.quantile(0.75) == 0
    assert found.quantile(0.76) == pytest.approx(1.125)


@pytest.mark.parametrize("value", [5e-324, 1e-310, 1.0, 1.999, 1.7e308])
def test_a_number_is_below_the_edge_of_its_bin(value):
    (place,) = counted([value]).counts
    assert value <= upper_edge(place)
    assert upper_edge(place - 1) <= value


def test_parts_add_up_through_json():
    values = np.abs(np.random.default_rng(1).normal(size=300))
    parts = [counted(part) for part in np.split(values, 3)]
    kept = LogHistogram()
    for part in reversed(parts):
        other = LogHistogram()
        other.load(json.loads(json.dumps(part.to_json())))
        kept.merge(other)
    assert kept.to_json() == counted(values).to_json()
