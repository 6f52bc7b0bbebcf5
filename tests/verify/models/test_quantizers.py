"""Next to a breakpoint of a quantizer, an element may be a step off; all others agree."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.contracts import Tolerance
from onnx_passes.verify.models.quantizers import agree_between_steps

TEXT = """<ir_version: 10, opset_import: ["" : 21]> g (float[4] x, bool c) => (float[4] y)
    <float s = {0.5}, uint8 z = {10}> { BODY }"""
PAIR = "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)"
IN_BODY = """y = If(c)<then_branch = t () => (float[4] p) { q = QuantizeLinear(x, s, z)
    p = DequantizeLinear(q, s, z) }, else_branch = e () => (float[4] r) { r = Identity(x) }>"""
DYNAMIC = "q, s2, z2 = DynamicQuantizeLinear(x) y = DequantizeLinear(q, s2, z2)"
TIE = np.float32([0.25, 1.0, 2.0, -3.0])
"""0.25 is half a step: it becomes 0, and with a little more 0.5."""
OLD = np.float32([0, 1, 2, -3])


def agrees(new, body=PAIR, x=TIE):
    feeds = {"x": x, "c": np.asarray(True)}
    model = ir.from_onnx_text(TEXT.replace("BODY", body))
    new = {"y": np.float32(new)}
    return agree_between_steps(model, feeds, {"y": OLD}, new, Tolerance(), {}) == {"y"}


@pytest.mark.parametrize("body", [PAIR, IN_BODY])
def test_an_element_next_to_a_breakpoint_may_be_a_step_off(body):
    assert agrees([0.5, 1, 2, -3], body)
    assert agrees([0, 1, 2, -3], body)


@pytest.mark.parametrize("new", [[1.0, 1, 2, -3], [-0.5, 1, 2, -3], [0, 1.5, 2, -3]])
def test_no_other_element_may_and_none_by_more(new):
    assert not agrees(new)


def test_a_model_without_quantizers_has_no_such_elements():
    assert not agrees([0.5, 1, 2, -3], "y = Identity(x)")


def test_the_scale_of_a_dynamic_quantizer_moves_a_little():
    x = np.float32([0, 1, 2, -3])
    model = ir.from_onnx_text(TEXT.replace("BODY", DYNAMIC))
    feeds = {"x": x, "c": np.asarray(True)}
    old = np.float32([0, 1.0, 2.0, -3.0196079])
    for error, expected in ((0.0, {"y"}), (0.01, set())):
        new = {"y": old + np.float32(error)}
        found = agree_between_steps(model, feeds, {"y": old}, new, Tolerance(), {})
        assert found == expected
