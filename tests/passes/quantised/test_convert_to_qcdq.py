"""Quantisers of QONNX as pairs of the standard, over all of their levels and beside them."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import testing
from onnx_passes.passes.quantised.convert_from_qcdq import ConvertFromQcdq
from onnx_passes.passes.quantised.convert_to_qcdq import ConvertToQcdq
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from tests.tables import each_of, kinds, outputs_of

FLAGS = 'signed = {signed}, narrow = {narrow}, rounding_mode = "{mode}"'
QUANT = f"y = q.Quant<{FLAGS}>(x, s, z, b)"


def quant(text, *, bits=4, signed=1, narrow=0, zero=0, mode="ROUND", scale="float s = {0.25}"):
    call = QUANT.format(signed=signed, narrow=narrow, mode=mode)
    return text(f"""(float[N,3] x) => (float[N,3] y) <{scale}, float z = {{{zero}}},
        float b = {{{bits}}}> {{ {call} }}""")


def run(model, x):
    return outputs_of(OnnxRuntimeEngine(prepacking=False), model, {"x": x})["y"]


PAIR = ["QuantizeLinear", "DequantizeLinear"]
GRID = np.arange(-400, 400, dtype=np.float32).repeat(3).reshape(-1, 3) / 8
"""Eighths: ties of a scale of 0.25 among them, on both sides of all bounds."""


@each_of("bits", 2, 3, 4, 6, 8)
@each_of("signed, narrow", (0, 0), (0, 1), (1, 0), (1, 1))
@each_of("zero", 0, 2)
def test_every_level_is_the_same_and_comes_back(bits, signed, narrow, zero, text):
    if zero > 2 ** (bits - signed) - 1 - (narrow and not signed):
        pytest.skip("the zero point is no level")
    model = testing.parse(quant(text, bits=bits, signed=signed, narrow=narrow, zero=zero))
    wanted = run(model, GRID)
    assert ConvertToQcdq()(model).modified
    whole = bits == 8 and not narrow
    assert kinds(model) == (PAIR if whole else [PAIR[0], "Clip", PAIR[1]])
    np.testing.assert_array_equal(run(model, GRID), wanted)
    assert ConvertFromQcdq()(model).modified
    assert kinds(model) == ["Quant"]
    node = next(n for n in model.graph if n.op_type == "Quant")
    found = [node.attributes.get_int(name) for name in ("signed", "narrow")]
    assert found == [signed, narrow]
    known = node.inputs[3].producer().attributes["value"].as_tensor().numpy()
    assert float(known) == bits
    np.testing.assert_array_equal(run(model, GRID), wanted)


@each_of("bits, opset, dtype", (4, 21, "INT4"), (2, 25, "INT2"))
def test_small_integers_have_types_of_their_own(bits, opset, dtype, text):
    model = testing.parse(quant(text, bits=bits).replace('"" : 20', f'"" : {opset}'))
    model.ir_version = 13 if opset == 25 else 10
    wanted = run(model, GRID)
    assert ConvertToQcdq(narrow_types=True)(model).modified
    assert kinds(model) == PAIR
    node = next(n for n in model.graph if n.op_type == "QuantizeLinear")
    zero = node.inputs[2].producer().attributes["value"].as_tensor()
    assert zero.dtype is ir.DataType[dtype]
    np.testing.assert_array_equal(run(model, GRID), wanted)


def test_scales_by_channel_and_weights(text):
    graph = text("""(float[N,3] x) => (float[N,2] y) <float[3] s = {0.25, 0.5, 1}, float z =
        {0},
        float b = {8}, float[3,2] w = {0.3, 1, -0.7, 2, 0.1, 0}, float[1,2] t = {0.1, 0.5},
        float c = {3}, float[N,3] a, float[3,2] v>
        { a = q.Quant<narrow = 0>(x, s, z, b) v = q.Quant(w, t, z, c) y = MatMul(a, v) }""")
    model = testing.parse(graph)
    wanted = run(model, GRID)
    assert ConvertToQcdq()(model).modified
    assert kinds(model) == [*PAIR, "DequantizeLinear", "MatMul"]
    np.testing.assert_allclose(run(model, GRID), wanted, rtol=1e-6)
    assert ConvertFromQcdq()(model).modified
    assert kinds(model) == ["Quant", "Quant", "MatMul"]
    np.testing.assert_allclose(run(model, GRID), wanted, rtol=1e-6)


@each_of(
    "options",
    {"bits": 1},
    {"bits": 9},
    {"bits": 3.5},
    {"mode": "FLOOR"},
    {"zero": 1},
    {"scale": "float s = {-0.25}"},
    {"scale": "float[2,3] s = {1, 2, 3, 4, 5, 6}"},
    {"scale": "float[1,1,1] s = {0.25}"},
)
def test_leaves_alone(options, text):
    given = quant(text, **options)
    if "float[2,3]" in given:
        given = given.replace("float[N,3]", "float[2,3]")
    testing.assert_leaves_alone(ConvertToQcdq(), testing.parse(given))


@each_of("given", "float s", "float z", "float s, float z, float b")
def test_parameters_that_callers_may_override_are_named(text, given):
    model = testing.parse(quant(text).replace("x) =>", f"x, {given}) =>"))
    pass_ = ConvertToQcdq()
    assert not pass_(model).modified
    (note,) = pass_.context.notes
    assert "1 kept, whose scale, zero point or bits are inputs of the model" in note
    assert "remove-initializers-from-inputs" in note
