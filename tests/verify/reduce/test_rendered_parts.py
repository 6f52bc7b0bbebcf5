"""What is written of a part is the model of that part."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.model.digest import canonical_hash
from onnx_passes.testing import parse
from onnx_passes.verify.reduce.rendered_parts import Renderer


def same(tensor, initializer):
    return tensor


SHAPE = """<ir_version: 10, opset_import: ["" : 20]>
main (float[2,3] x, float[3] w = {1.0, 2.0, 3.0}) => (float[a,b] y)
{ s = Shape(x) r = Add(x, w) k = Constant<value_int = 2>() t = Mul(s, k) y = Reshape(r, s) }"""


@pytest.mark.parametrize("kept", [{0}, {1, 3}, {0, 1}, {0, 1, 2, 3}, {2, 3}])
def test_a_written_part_is_the_model_of_the_part(parts_of, kept):
    parts = parts_of(parse(SHAPE))
    piece = parts.piece(frozenset(kept))
    proto = Renderer(parts, same).render(piece)
    onnx.checker.check_model(proto, full_check=True)
    assert canonical_hash(ir.from_proto(proto)) == canonical_hash(parts.model_of(piece))


def test_weights_and_nodes_are_serialised_once(diamond, parts_of):
    parts, asked = parts_of(diamond), []

    def choose(tensor, initializer):
        asked.append(tensor)
        return tensor

    renderer = Renderer(parts, choose)
    asked.clear()
    for kept in ({2}, {2, 3}, {0, 1, 2}):
        proto = renderer.render(parts.piece(frozenset(kept)))
        [weight] = proto.graph.initializer
        assert np.array_equal(onnx.numpy_helper.to_array(weight), [1, 2, 3, 4])
    assert len(asked) == 1
