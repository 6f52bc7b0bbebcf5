"""Fails while onnx_passes.passes.fusion.flatten_linear_layers:FlattenLinearLayers [13] is wrong on the model beside this file.

node 'Constant' (Constant): Unrecognized attribute: value_ints for operator Constant (opset 11)
"""

from pathlib import Path

from onnx_passes.verify.rules.regression import still_wrong


def test_flattenlinearlayers_13():
    reason = still_wrong('onnx_passes.passes.fusion.flatten_linear_layers:FlattenLinearLayers', 13, Path(__file__).parent, exact=False)
    assert reason is None, reason
