"""Round the weights of a model to a few bits: ``python round_weights.py 6 out.onnx``."""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

SOURCE = Path(__file__).parent.parent / "digits" / "model.onnx"


def main(bits: int, path: str) -> None:
    model = onnx.load(SOURCE)
    for tensor in model.graph.initializer:
        if not tensor.name.endswith(".weight"):
            continue
        weights = numpy_helper.to_array(tensor)
        step = np.abs(weights).max() / 2 ** (bits - 1)
        rounded = np.round(weights / step).astype(np.float32) * np.float32(step)
        tensor.CopyFrom(numpy_helper.from_array(rounded, tensor.name))
    onnx.save(model, path)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
