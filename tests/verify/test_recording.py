import errno
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.testing import parse
from onnx_passes.verify.recording import (
    DRAWS,
    DRAWS_OF_OTHERS,
    Recording,
    ValueSource,
    choose_unrecorded,
    dependent_on_data,
    expose_values,
    is_informative,
    random_like,
)
from tests.tables import each_of, each_row

MODEL = """(float[N, 100] x) => (float[N] y)
    <float[N, 100] big, float[N, 50] half, float[N] small> {
        big = Relu(x)
        axes = Constant<value_ints = [1]>()
        half, rest = Split<axis = 1, num_outputs = 2>(big)
        small = ReduceSum<keepdims = 0>(half, axes)
        odd = Neg(rest)
        y = Neg(small)
    }"""
SAMPLES = [{"x": np.zeros((n, 100), np.float32)} for n in (2, 3)]


def chosen(limit, *needed):
    return choose_unrecorded(parse(MODEL), SAMPLES, set(needed), limit)


def test_the_largest_values_are_left_out_first():
    # Of five rows in all: 2000 bytes, 1000 bytes, 20 bytes.
    assert chosen(2000) == {"big"}
    assert chosen(500) == {"big", "half"}


def test_what_is_needed_is_recorded_and_leaves_less_room():
    assert chosen(2500, "big") == {"half"}


def test_sizes_that_nobody_noted_are_not_guessed():
    assert "odd" not in chosen(0)


def test_goes_to_disk_beyond_its_limit_and_reads_back_equal():
    recording = Recording(limit=100)
    arrays = {f"v{i}": np.full(20, i, np.float32) for i in range(4)}
    recording.update(arrays)
    assert recording.spilled == 3
    assert all(np.array_equal(recording[name], array) for name, array in arrays.items())


def test_a_full_disk_is_named_with_its_file(monkeypatch):
    """NumPy says neither, which was an internal error."""

    def full(path, array, **given):
        raise OSError("80 requested and 0 written")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(OSError, match="80 requested") as raised:
        Recording(limit=0).update({"a": np.zeros(20, np.float32)})
    assert (raised.value.errno, Path(raised.value.filename).name) == (errno.ENOSPC, "0.npy")


def test_what_is_forgotten_makes_room():
    recording = Recording(limit=100)
    recording.update({"a": np.zeros(20, np.float32)})
    recording.keep([])
    recording.update({"b": np.zeros(20, np.float32)})
    assert (list(recording), recording.spilled) == (["b"], 0)


def test_data_that_is_no_tensor_is_left_out():
    recording = Recording(limit=100)
    recording.update({"seq": [np.zeros(2)], "none": None})
    assert not recording


def test_exposes_every_value_once_and_leaves_the_model():
    model = parse("(float[2] x) => (float[2] y) { a = Relu(x) y = Neg(a) }")
    assert [v.name for v in expose_values(model).graph.outputs] == ["y", "a"]
    assert [v.name for v in model.graph.outputs] == ["y"]


def test_weights_that_the_graph_computes_are_not_recorded_for_every_sample():
    model = parse(
        """(float[N,1024] x) => (float[N,1024] y) {
        s = Constant<value_ints = [1024, 1024]>() w = ConstantOfShape(s) y = MatMul(x, w) }"""
    )
    assert [v.name for v in expose_values(model, weights=False).graph.outputs] == ["y"]
    assert len(expose_values(model).graph.outputs) == 2


def test_strings_have_no_size_to_judge_by():
    model = parse('(string[1] x) => (string[1] y) <string[1] w = {"a"}> { y = Identity(w) }')
    assert [v.name for v in expose_values(model, weights=False).graph.outputs] == ["y"]


def informative(*arrays, varies=True):
    return is_informative([np.asarray(a) for a in arrays], lambda: varies)


@each_of(
    "arrays",
    [np.zeros((0, 4), np.float32)],
    [np.zeros(8, np.float32)],
    [np.full(3, np.nan)],
    [np.array([np.inf, -np.inf])],
    [np.array([np.nan, 1.0])],
    [np.zeros(2, bool), np.zeros(2, bool)],
    [np.zeros(2), np.array([0.0, np.inf])],
    ids=["empty", "constant", "nan", "infinite", "one finite", "each time", "overflow"],
)
def test_a_value_that_depends_on_data_and_shows_none_tells_nothing(arrays):
    assert not informative(*arrays)


@each_of(
    "arrays",
    [np.array([1.0, 2.0])],
    [np.array([np.nan, 1.0, 2.0])],
    [np.array(1.0), np.array(2.0)],
    [np.array([0, 0, 3])],
    [np.array([True, False])],
    [np.array(["a", "b"])],
    [np.zeros((0,)), np.array([1.0, 2.0])],
    [np.array([0.0, -np.inf])],
    ids=["floats", "with nan", "by sample", "ints", "bools", "strings", "one empty", "mask"],
)
def test_two_elements_that_differ_tell(arrays):
    assert informative(*arrays)


def test_an_element_late_in_a_large_value_is_found():
    array = np.zeros(5000, np.float16)
    array[-1] = 1
    assert informative(array)


def test_a_constant_or_empty_value_tells_where_it_follows_from_shapes_alone():
    assert informative(np.array([4, 4]), varies=False)
    assert informative(np.array([], np.int64), varies=False)


MODEL_INFORMATIVE = """<ir_version: 10, opset_import: ["" : 20]>
g (float[N, 4] x, bool c) => (float[N, 4] y) {
    s = Shape(x) z = Size(x) t = Concat<axis = 0>(s, s)
    k = Constant<value_ints = [2]>() m = Mul(t, k) e = Neg(x)
    w = If(c) <
        then_branch = a () => (o) { o = Exp(x) },
        else_branch = b () => (p) { p = Identity(e) }
    >
    y = Add(w, e)
}"""


@each_row("""name | expected
- s | =False
- z | =False
- m | =False
- k | =False
- e | =True
- w | =True
""")
def test_shapes_and_constants_are_no_data_and_what_a_body_captures_is(name, expected):
    assert (name in dependent_on_data(ir.from_onnx_text(MODEL_INFORMATIVE))) is expected


def test_drawn_values_have_the_type_and_shape_and_repeat():
    for dtype in (np.float32, np.float16, np.int64, bool):
        array = np.ones((3, 5), dtype)
        drawn = random_like(array, "x 0")
        assert (drawn.dtype, drawn.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(drawn, random_like(array, "x 0"))
        assert (drawn != random_like(array, "x 1")).any()


def test_half_of_the_draws_are_positive_so_that_a_root_is_finite():
    array = np.zeros(100, np.float32)
    assert (random_like(array, "x 0") < 0).any()
    assert (random_like(array, "x 0", ValueSource(positive=True)) >= 0).all()


@each_of("recorded", False, True)
def test_a_condition_is_drawn_both_ways(recorded):
    """By chance, the condition of an If was the same in each draw, and was not verified."""
    for draws in (DRAWS, DRAWS_OF_OTHERS):
        found = {random_like(np.array(recorded), "c", draw).item() for draw in draws}
        assert found == {False, True}


def test_sizes_and_indices_do_not_become_negative_or_large():
    array = np.array([-1, 0, 1, 5, 1 << 20])
    drawn = random_like(array, "shape 0")
    assert ((drawn - array) >= 0).all()
    assert ((drawn - array) <= 1).all()
    assert drawn[-1] == 1 << 20
    np.testing.assert_array_equal(drawn[:2], [-1, 0])


def test_specials_are_not_numbers_infinite_large_and_zero():
    drawn = random_like(np.ones(400, np.float32), "x 0", ValueSource(special=True))
    assert np.isnan(drawn).any()
    assert np.isposinf(drawn).any()
    assert np.isneginf(drawn).any()
    assert (drawn == 0).any()
    integers = random_like(np.zeros(100, np.uint8), "x 0", ValueSource(special=True))
    assert 0 < len(np.unique(integers)) <= 8
    assert (integers != 0).any()
