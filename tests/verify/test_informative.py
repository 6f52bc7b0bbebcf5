"""Which values can show a fault, and which are what they are for all data."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.verify.informative import depends_on_data, is_informative


def informative(*arrays, varies=True):
    return is_informative([np.asarray(a) for a in arrays], lambda: varies)


@pytest.mark.parametrize(
    "arrays",
    [
        [np.zeros((0, 4), np.float32)],
        [np.zeros(8, np.float32)],
        [np.full(3, np.nan)],
        [np.array([np.inf, -np.inf])],
        [np.array([np.nan, 1.0])],
        [np.zeros(2, bool), np.zeros(2, bool)],
    ],
    ids=["empty", "constant", "nan", "infinite", "one finite", "the same each time"],
)
def test_a_value_that_depends_on_data_and_shows_none_tells_nothing(arrays):
    assert not informative(*arrays)


@pytest.mark.parametrize(
    "arrays",
    [
        [np.array([1.0, 2.0])],
        [np.array([np.nan, 1.0, 2.0])],
        [np.array(1.0), np.array(2.0)],
        [np.array([0, 0, 3])],
        [np.array([True, False])],
        [np.array(["a", "b"])],
        [np.zeros((0,)), np.array([1.0, 2.0])],
    ],
    ids=["floats", "with nan", "by sample", "ints", "bools", "strings", "one empty"],
)
def test_two_elements_that_differ_tell(arrays):
    assert informative(*arrays)


def test_an_element_late_in_a_large_value_is_found():
    array = np.zeros(5000, np.float16)
    array[-1] = 1
    assert informative(array)


def test_a_constant_tells_where_it_follows_from_shapes_alone():
    assert informative(np.array([4, 4]), varies=False)
    assert not informative(np.array([], np.int64), varies=False)


MODEL = """<ir_version: 10, opset_import: ["" : 20]>
g (float[N, 4] x, bool c) => (float[N, 4] y) {
    s = Shape(x) z = Size(x) t = Concat<axis = 0>(s, s)
    k = Constant<value_ints = [2]>() m = Mul(t, k) e = Neg(x)
    w = If(c) <
        then_branch = a () => (o) { o = Exp(x) },
        else_branch = b () => (p) { p = Identity(e) }
    >
    y = Add(w, e)
}"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [("s", False), ("z", False), ("m", False), ("k", False), ("e", True), ("w", True)],
)
def test_shapes_and_constants_are_no_data_and_what_a_body_captures_is(name, expected):
    assert depends_on_data(ir.from_onnx_text(MODEL), name) is expected
