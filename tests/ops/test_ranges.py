import onnx_ir as ir

from onnx_passes.ops import families  # noqa: F401 - which registers the operators
from onnx_passes.passes.analysis.value_ranges import ranges_of


def test_a_row_of_more_elements_than_fit_has_the_range_of_its_type():
    text = (
        '<ir_version: 10, opset_import: ["" : 20]> g (float[1099511627776] x) => (float[1] y) '
        "{ r = Relu(x) y = ReduceSum(r) }"
    )
    found = ranges_of(ir.from_onnx_text(text), {"x": (0.0, 1.0)}, {}).intervals
    assert found["y"][1] > 1e38
