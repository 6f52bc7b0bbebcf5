"""Fails while onnx_passes.passes.fusion.flatten_linear_layers:FlattenLinearLayers [14] is wrong on the model beside this file.

node 'Constant' (Constant): Unrecognized attribute: value_ints for operator Constant (opset 11)
"""

from pathlib import Path

from onnx_passes.verify.rules.regression import still_wrong


def test_flattenlinearlayers_14():
    reason = still_wrong('onnx_passes.passes.fusion.flatten_linear_layers:FlattenLinearLayers', 14, Path(__file__).parent, exact=False)
    assert reason is None, reason
