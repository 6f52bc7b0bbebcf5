"""Write model.onnx: y = Relu(a + b), float32 [n,4]."""

from pathlib import Path

import onnx

TEXT = """
<ir_version: 8, opset_import: ["": 18], producer_name: "examples/break_adds/make_model.py">
relu_of_sum (float[n,4] a, float[n,4] b) => (float[n,4] y) {
    sum = Add(a, b)
    y = Relu(sum)
}
"""

if __name__ == "__main__":
    model = onnx.parser.parse_model(TEXT)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, Path(__file__).parent / "model.onnx")
