from __future__ import annotations

import tracemalloc

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.ops.input_hints import ValueHint, between, exactly
from onnx_passes.runtime.inputs import random_values
from onnx_passes.runtime.inputs.random_values import draw

SHAPES = st.lists(st.integers(0, 4), max_size=3).map(tuple)


def rng():
    return np.random.default_rng(0)


@given(st.sampled_from(list(ir.DataType)[1:]), SHAPES)
def test_every_type_has_its_shape_and_type(dtype, shape):
    array = draw(dtype, shape, ValueHint(), rng())
    assert array.shape == shape
    assert array.dtype == (object if dtype == ir.DataType.STRING else dtype.numpy())


@given(st.integers(-20, 20), st.integers(0, 20), st.booleans())
def test_integers_lie_between_their_bounds(low, extent, is_open):
    hint = between(low, None if is_open else low + extent)
    array = draw(ir.DataType.INT64, (50,), hint, rng())
    assert array.min() >= low
    assert is_open or array.max() <= low + extent


@pytest.mark.parametrize("dtype", [ir.DataType.FLOAT, ir.DataType.INT32])
def test_zero_is_left_out(dtype):
    assert draw(dtype, (1000,), ValueHint(nonzero=True), rng()).all()


def test_each_column_has_its_bound():
    array = draw(ir.DataType.INT64, (200, 2), between(0, np.array([1, 5])), rng())
    assert array.max(0).tolist() == [1, 5]
    # A layout that the bounds do not fit gets the strictest of them.
    assert draw(ir.DataType.INT64, (200,), between(0, np.array([1, 5])), rng()).max() == 1


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_distinct_integers_do_not_repeat_along_their_axis(axis):
    array = draw(ir.DataType.INT64, (4, 5), ValueHint(low=2, high=7, distinct=axis), rng())
    assert (np.diff(np.sort(array, axis), axis=axis) > 0).all()
    assert array.min() >= 2
    assert array.max() <= 7


def test_the_one_value_takes_the_shape_it_can():
    assert draw(ir.DataType.INT64, (1,), exactly(5), rng()).tolist() == [5]
    assert draw(ir.DataType.INT64, (3,), exactly(5), rng()).tolist() == [5, 5, 5]
    assert draw(ir.DataType.INT64, (2, 2), exactly([1, 2, 3, 4]), rng()).tolist() == [
        [1, 2],
        [3, 4],
    ]
    assert draw(ir.DataType.INT64, (9,), exactly([1, 2]), rng()).tolist() == [1, 2]


def test_single_booleans_take_turns():
    drawn = [bool(draw(ir.DataType.BOOL, (), ValueHint(), rng(), turn)) for turn in range(4)]
    assert drawn == [True, False, True, False]


@pytest.mark.parametrize("hint", [ValueHint(), between(-3, 4), ValueHint(nonzero=True)])
@pytest.mark.parametrize("name", ["FLOAT", "FLOAT16", "INT32", "UINT8", "BOOL"])
def test_a_large_tensor_is_drawn_in_pieces_of_the_values_that_it_has_as_a_whole(
    hint, name, monkeypatch
):
    whole = draw(ir.DataType[name], (7, 30), hint, rng())
    monkeypatch.setattr(random_values, "_PIECE", 64)
    assert np.array_equal(draw(ir.DataType[name], (7, 30), hint, rng()), whole)


def test_a_large_tensor_is_never_held_in_double_precision():
    tracemalloc.start()
    array = draw(ir.DataType.FLOAT16, (1 << 24,), ValueHint(), rng())
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2 * array.nbytes
