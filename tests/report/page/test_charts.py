import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.report.page.charts import Bar, Dot, bars, dots, paired, steps
from onnx_passes.report.page.markup import render

errors = st.floats(min_value=0) | st.sampled_from([0.0, math.inf, math.nan, 5e-324])


def percent(text):
    return float(text.removesuffix("%"))


def circle(root, row):
    return percent(list(root.iter("circle"))[row].get("cx"))


def test_bars_are_in_proportion():
    root = bars([Bar("a", [(1, "first"), (3, "second")], ""), Bar("b", [(2, "first")], "")])
    boxes = [(percent(r.get("x")), percent(r.get("width"))) for r in root.iter("rect")]
    assert boxes == [(0, 25), (25, 75), (0, 50)]


def test_pairs_share_one_scale():
    root = paired([(Bar("a", [(4, "was")], ""), Bar("a", [(1, "first")], ""))])
    assert [percent(r.get("width")) for r in root.iter("rect")] == [100, 25]


def test_charts_of_nothing_and_of_zeros_are_drawn():
    assert "nan" not in render(bars([Bar("a", [(0, "first")], "")]))
    assert render(bars([])) == '<ol class="rows"></ol>'
    assert "nan" not in render(steps([0, 0], "flat"))


def test_an_error_lies_left_of_its_limit_exactly_when_it_is_smaller():
    root = dots([Dot("in", 1e-7, 1e-5, "", "good"), Dot("out", 1e-2, 1e-5, "", "bad")])
    limits = [percent(e.get("x1")) for e in root.iter("line") if e.get("class") == "limit"]
    assert circle(root, 0) < limits[0] == limits[1] < circle(root, 1)


def test_a_decade_is_the_same_distance_everywhere():
    root = dots([Dot(str(e), 10.0**-e, None, "", "good") for e in (2, 4, 6)])
    a, b, c = (circle(root, row) for row in range(3))
    assert a - b == pytest.approx(b - c, abs=1e-3)


def test_zero_and_infinity_have_places_beside_the_axis():
    rows = [Dot("0", 0.0, None, "", "good"), Dot("1", 1e-9, None, "", "good")]
    root = dots([*rows, Dot("inf", math.inf, 1.0, "", "bad")])
    assert circle(root, 0) < circle(root, 1) < circle(root, 2) <= 100


@given(st.lists(st.tuples(errors, st.none() | errors), min_size=1, max_size=8))
def test_any_errors_can_be_drawn(pairs):
    root = dots([Dot("x", error, limit, "", "good") for error, limit in pairs])
    assert all(0 <= circle(root, row) <= 100 for row in range(len(pairs)))
    assert "nan" not in render(root)


def test_steps_fall_where_the_value_falls():
    line = next(p for p in steps([100, 100, 50], "nodes").iter("path") if p.get("fill"))
    assert line.get("d") == "M0 8 L0 8 L500 8 L500 54 L1000 54"
