"""``python -m benchmarks.tune.train``: train deep networks on scikit-learn's digits.

    pip install scikit-learn

Writes ``digits-7.onnx`` and ``digits-11.onnx``, of 7 and 11 layers, beside this file. They
read the images of ``examples/digits``; 400 are held back from training. Seeded.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "digits"


def export(weights: list[np.ndarray], biases: list[np.ndarray]) -> onnx.ModelProto:
    """Return layers with Relu between them, from image [batch,1,8,8] to scores [batch,10]."""
    nodes = [helper.make_node("Flatten", ["image"], ["x0"], name="flatten")]
    constants = []
    for number, (w, b) in enumerate(zip(weights, biases, strict=True)):
        constants += [
            numpy_helper.from_array(w.astype(np.float32), f"w{number}"),
            numpy_helper.from_array(b.astype(np.float32), f"b{number}"),
        ]
        last = number == len(weights) - 1
        out = "scores" if last else f"y{number}"
        read = [f"x{number}", f"w{number}", f"b{number}"]
        nodes.append(helper.make_node("Gemm", read, [out], name=f"layer{number}"))
        if not last:
            name = f"relu{number}"
            nodes.append(helper.make_node("Relu", [out], [f"x{number + 1}"], name=name))
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 10])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def main() -> None:
    """Train and write both."""
    from sklearn.neural_network import MLPClassifier

    sys.path.insert(0, str(EXAMPLE))
    from train import load_digits

    images, labels, test_images, test_labels = load_digits()
    for width, depth in ((64, 6), (48, 10)):
        network = MLPClassifier((width,) * depth, max_iter=400, random_state=0, alpha=1e-3)
        network.fit(images.reshape(len(images), -1), labels)
        accuracy = network.score(test_images.reshape(len(test_images), -1), test_labels)
        path = HERE / f"digits-{depth + 1}.onnx"
        onnx.save(export(network.coefs_, network.intercepts_), path)
        print(f"{path.name}: accuracy {accuracy:.2%} on {len(test_labels)} held-back images")


if __name__ == "__main__":
    main()
