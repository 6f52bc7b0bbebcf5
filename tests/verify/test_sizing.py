"""What is recorded is chosen before the run, by the shapes that are noted."""

import numpy as np
import onnx_ir as ir

from onnx_passes.verify.sizing import too_much

MODEL = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[N, 100] x) => (float[N] y)
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
    return too_much(ir.from_onnx_text(MODEL), SAMPLES, set(needed), limit)


def test_everything_is_recorded_where_it_fits():
    assert chosen(1 << 20) == set()


def test_the_largest_values_are_left_out_first():
    # Of five rows in all: 2000 bytes, 1000 bytes, 20 bytes.
    assert chosen(2000) == {"big"}
    assert chosen(500) == {"big", "half"}


def test_what_is_needed_is_recorded_and_leaves_less_room():
    assert chosen(2500, "big") == {"half"}


def test_sizes_that_nobody_noted_are_not_guessed():
    assert "odd" not in chosen(0)


def test_what_an_earlier_run_has_shown_is_known():
    seen = {"odd": 600, "small": 4}
    model = ir.from_onnx_text(MODEL)
    assert too_much(model, SAMPLES, set(), 1500, seen) == {"big", "odd"}


def test_an_unknown_dimension_counts_as_one():
    # Its five rows of 1000 bytes count as one for each of the two samples, 400 bytes.
    text = MODEL.replace("float[N, 50] half", "float[U, 50] half")
    assert too_much(ir.from_onnx_text(text), SAMPLES, set(), 450) == {"big"}
