"""Inputs at the edges of what a model takes."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.runtime.inputs import edge_samples, make_samples

HEAD = '<ir_version: 10, opset_import: ["" : 20]> g '


def edges(text, **options):
    found = edge_samples(ir.from_onnx_text(HEAD + text), **options)
    assert not any(feeds.asked for feeds in found)
    return {feeds.kind: feeds for feeds in found}


def test_floats_have_ties_zeros_and_equal_values():
    drawn = edges("(float[64] x) => (float[64] y) { y = Round(x) }")["multiples of 1/2"]["x"]
    assert drawn.dtype == np.float32
    assert set(drawn % 1) == {0, 0.5}
    assert 0 in drawn
    assert len(set(drawn)) < len(drawn)


def test_what_is_compared_with_a_constant_lies_on_both_sides_of_it():
    found = edges(
        "(float[8] x, float[8] z) => (bool[8] y, float[8] w) <float k = {100}> "
        "{ y = Less(x, k) w = Neg(z) }"
    )["limits"]
    assert 100 in found["x"]
    assert (found["x"] > 100).any()
    assert ((found["x"] < 100) & (found["x"] > 80)).any()
    assert (np.abs(found["z"]) < 10).all()


def test_what_is_quantised_by_a_power_of_two_lies_half_way_between_levels():
    text = """(float[8] x, float[8] z) => (uint8[8] y, uint8[8] w)
        <float s = {0.25}, float t = {0.3}, uint8 k = {3}>
        { y = QuantizeLinear(x, s, k) w = QuantizeLinear(z, t, k) }"""
    found = edges(text)["ties"]
    assert set(found["x"] / 0.25 % 1) == {0.5}
    assert set(found["z"] / 0.25 % 1) != {0.5}


@pytest.mark.parametrize(
    ("call", "empty"),
    [
        ("ReduceSum(x, front)", True),
        ("ReduceL2(x)", True),
        ("ReduceSum(x, end)", False),  # ONNX Runtime keeps the size of this axis
        ("ReduceMean(x)", False),  # the standard does not say what that is
    ],
)
def test_sums_of_nothing_are_asked_for_where_the_standard_defines_them(call, empty):
    found = edges(
        "(float[N,2] x) => (float[A,B] y) <int64[1] front = {0}, int64[1] end = {-1}> "
        "{ y = " + call + " }"
    )
    assert ("size 0" in found) == empty


LOOP = """(int64 n, bool c, float[2] x) => (float[2] y) { y = Loop(n, c, x) <
    body = b (int64 i, bool k, float[2] s) => (bool l, float[2] t) {
    l = Identity(k) t = Sin(s) }> }"""


def test_a_loop_runs_once_and_not_at_all():
    found = edges(LOOP)
    assert found["count 0"]["n"] == 0
    assert not found["count 0"]["c"]
    assert found["count 1"]["n"] == 1
    assert "negated" not in found  # it might not end


def test_booleans_are_negated():
    text = "(bool[3] c, float[3] x) => (float[3] y) { y = Where(c, x, x) }"
    (ordinary, other) = (
        [f["c"] for f in edge_samples(ir.from_onnx_text(HEAD + text)) if f.kind == kind]
        for kind in ("multiples of 1/2", "negated")
    )
    np.testing.assert_array_equal(other[0], ~ordinary[0])


@pytest.mark.parametrize("text", ["float[2] w = {1, 2}", "bool w = {1}"])
def test_an_input_with_a_default_has_another_value(text):
    kind = text.partition(" w")[0]
    text = f"(float[2] x, {kind} w) => (float[2] y, {kind} v) <{text}> {{"
    text += " y = Neg(x) v = Identity(w) }"
    model = ir.from_onnx_text(HEAD + text)
    found = edges(text)["other defaults"]["w"]
    assert (found != model.graph.initializers["w"].const_value.numpy()).all()


def test_what_the_user_ranges_over_stays():
    text = "(float[8] x) => (bool[8] y) <float k = {100}> { y = Less(x, k) }"
    assert edges(text, ranges={"x": (0.0, 1.0)}) == {}


def test_a_large_input_has_no_edges():
    assert edges("(float[300, 300] x) => (float[300, 300] y) { y = Neg(x) }") == {}


@pytest.mark.parametrize(
    "call", ["Gather(v, i)", "OneHot(i, depth, pair)", "GatherElements(v, i)"]
)
def test_indices_count_from_the_end_where_they_may(call):
    found = edges(
        "(int64[3] i) => (float[A] y) <float[4] v = {1, 2, 3, 4}, int64 depth = {4}, "
        "float[2] pair = {0, 1}> { y = " + call + " }"
    )["indices from the end"]["i"]
    assert (found < 0).any()
    assert (found >= -4).all()


@pytest.mark.parametrize("seed", range(5))
def test_small_floats_overflowed_no_exponential_and_had_no_zero(seed):
    """So `Log(1 + Exp(x))` passed for Softplus, and `-x` for `0 - x` behind a reciprocal."""
    found = edges("(float[2] x) => (float[2] y) { y = Softplus(x) }", seed=seed)
    assert found["large floats"]["x"].max() >= 100
    assert found["large floats"]["x"].min() <= -100
    assert 0 in found["multiples of 1/2"]["x"]


def test_an_integer_that_is_compared_with_a_constant_was_never_near_it():
    """So a number could be forgotten that a Where looks for."""
    text = "(int64[6] x) => (bool[6] y) <int64 k = {777}> { y = Equal(x, k) }"
    assert {776, 777, 778} <= set(edges(text)["limits"]["x"].tolist())


def test_large_integers_cancelled_in_pairs_so_that_a_sum_of_floats_was_right():
    found = edges("(int32[8] x) => (int32[8] y) { y = Neg(x) }")["large integers"]["x"]
    exact = found.astype(np.int64).sum()
    assert exact != found.astype(np.float32).sum()
    assert abs(found.astype(np.int64)).min() > 2**30


@pytest.mark.parametrize(("joined", "repeats"), [("add", True), ("none", False)])
def test_indices_of_joined_updates_never_repeated(joined, repeats):
    """So a sum of duplicates could be lost."""
    text = f"""(float[4] x, int64[4] i, float[4] u) => (float[4] y)
        {{ y = ScatterElements<reduction = "{joined}">(x, i, u) }}"""
    model = ir.from_onnx_text(HEAD + text)
    drawn = [one.feeds["i"] for one in make_samples(model, seed=0, samples=8)]
    assert any(len(set(row.tolist())) < 4 for row in drawn) is repeats
