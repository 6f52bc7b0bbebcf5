import onnx
import pytest
from onnx import TensorProto

from onnx_passes.verify.upcast import upcast_node


def types(op_type, **attributes):
    node = upcast_node(onnx.helper.make_node(op_type, ["x"], ["y"], **attributes))
    return {attribute.name: attribute.i for attribute in node.attribute}


@pytest.mark.parametrize(
    ("op_type", "name"),
    [("Cast", "to"), ("EyeLike", "dtype"), ("HannWindow", "output_datatype")],
)
def test_an_attribute_that_names_a_narrow_float_names_a_double(op_type, name):
    assert types(op_type, **{name: TensorProto.FLOAT16}) == {name: TensorProto.DOUBLE}
    assert types(op_type, **{name: TensorProto.INT32}) == {name: TensorProto.INT32}


@pytest.mark.parametrize(
    ("op_type", "name"),
    [
        ("RandomUniform", "dtype"),
        ("SequenceEmpty", "dtype"),
        ("MelWeightMatrix", "output_datatype"),
    ],
)
def test_what_is_float32_by_default_is_double(op_type, name):
    assert types(op_type) == {name: TensorProto.DOUBLE}


@pytest.mark.parametrize("op_type", ["EyeLike", "Bernoulli", "Multinomial", "Add", "Unknown"])
def test_what_has_no_float_type_by_default_gets_none(op_type):
    assert types(op_type) == {}


def test_a_bit_cast_keeps_its_bits():
    assert types("BitCast", to=TensorProto.FLOAT) == {"to": TensorProto.FLOAT}
