import json
import math

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onnx_passes.data.measures import ExactSum

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
