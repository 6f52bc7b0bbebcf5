"""Operators of before opset 7 go through presets as they are, verified."""

import onnx
import onnx.parser
import pytest

import onnx_passes

EARLY = {
    "Reshape-1": (4, "float[2,12]", "r = Reshape<shape = [0, -1]>(x)  y = Abs(r)"),
    "Cast-1": (5, "float[2,3,4]", 'd = Cast<to = "DOUBLE">(x)  y = Cast<to = "FLOAT">(d)'),
}


@pytest.mark.parametrize("preset", ["cleanup", "optimize"])
@pytest.mark.parametrize("name", EARLY)
def test_an_attribute_that_became_an_input_or_a_number_is_read(name, preset):
    opset, type_, nodes = EARLY[name]
    text = f"""<ir_version: 3, opset_import: ["" : {opset}]>
        g (float[2,3,4] x) => ({type_} y) {{ {nodes} }}"""
    found = onnx_passes.run(onnx.parser.parse_model(text), preset)
    assert found.verdict in ("VERIFIED", "UNCHANGED"), found.error
