import json

import numpy as np
import pytest

from onnx_passes.data.accumulators.histogram import STEPS, LogHistogram, upper_edge


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
