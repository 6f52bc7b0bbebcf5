import numpy as np
import onnx_ir as ir

from onnx_passes.passes.lowering.lower_hard_sigmoid import LowerHardSigmoid
from tests.passes.lowering.forms import elementwise

test_lowers = elementwise(
    "HardSigmoid(x)",
    8,
    "Mul Add Min Max",
    "HardSigmoid<alpha = 0.3, beta = 0.1>(x)",
    types=("float",),
    old=7,
)


def test_the_default_of_alpha_is_in_single_precision_on_doubles_too():
    model = ir.from_onnx_text("""<ir_version: 8, opset_import: ["" : 13]> g (double[2] x)
        => (double[2] y) { y = HardSigmoid(x) }""")
    graph = LowerHardSigmoid()(model).model.graph
    constants = [node.attributes.get("value") for node in graph]
    numbers = [c.as_tensor().numpy().item() for c in constants if c is not None]
    assert float(np.float32(0.2)) in numbers
