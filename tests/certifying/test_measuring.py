"""What an engine says of a node that no rule of ours describes."""

import onnx_ir as ir
import pytest

from onnx_passes.certifying.replay import infer_by_running
from onnx_passes.ops.call import Tensor
from onnx_passes.ops.domains.concrete import UNKNOWN
from onnx_passes.ops.semantics import Unsupported, scalars


def operand(name, *shape):
    value = ir.val(name, dtype=ir.DataType.FLOAT, shape=list(shape))
    size = 1
    for each in shape:
        size *= each
    return value, Tensor(scalars([UNKNOWN] * size, shape), ir.DataType.FLOAT)


def test_a_node_is_run_for_its_shape():
    (x, data) = operand("x", 2, 3)
    node = ir.node("Mish", [x])
    node.outputs[0].name = "y"
    (found,) = infer_by_running(node, {x: data}, {"": 18})
    assert found.shape == (2, 3)


def test_a_convolution_of_no_channel_is_not_run():
    # ONNX Runtime 1.31.1 does not return from it.
    (x, data), (w, weights) = operand("x", 2, 0, 3), operand("w", 4, 0, 1)
    node = ir.node("Conv", [x, w])
    node.outputs[0].name = "y"
    with pytest.raises(Unsupported, match="never ends"):
        infer_by_running(node, {x: data, w: weights}, {"": 18})
