import pytest

from onnx_passes.errors import OptionError
from onnx_passes.passes.analysis.dynamic_shapes import DynamicShapes
from onnx_passes.testing import assert_leaves_alone, parse


def found(text, **dims):
    pass_ = DynamicShapes(dims=dims)
    assert_leaves_alone(pass_, parse(text))
    return pass_.context.analysis("dynamic-shapes"), pass_.context.notes


MODEL = "(float[N,3] x, float[3] w) => (float[N,3] y) { t = Exp(x) u = Neg(w) y = Mul(t, u) }"


def test_which_values_a_dimension_reaches():
    report, notes = found(MODEL)
    assert set(report.dynamic) == {"x", "t", "y"}
    assert (report.values, report.symbols, report.sources) == (5, {"N": 3}, ())
    assert notes[0] == "3 of 5 values have no fixed shape"


def test_with_a_size_all_are_fixed():
    report, notes = found(MODEL, N=4)
    assert (report.dynamic, report.symbols) == ({}, {})
    assert notes == ["all 5 values have a fixed shape"]
    with pytest.raises(OptionError, match="dynamic-shapes: no input has a dimension 'K'"):
        found(MODEL, K=1)


def test_dimensions_that_depend_on_data_begin_somewhere():
    report, notes = found(
        "(float[8] x) => (int64[1,K] y) { [here] t = NonZero(x) y = Identity(t) }"
    )
    assert report.sources[0] == "NonZero 'here'"
    assert any("begin at NonZero" in note for note in notes)
