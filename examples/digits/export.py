"""Write the trained network as exporters of training frameworks do: literally.

Nothing is simplified on purpose. Batch normalisation is not fused, dropout and identities
stay, and constants are nodes. The flattening is spelled out in shape arithmetic, and the
deviation of the pixels is computed in the graph. One initializer is stored twice, and a head
that only training needed is still there. That is what a pass pipeline is for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from network import DROPOUT, EPSILON, Params
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 18, 8


class Writer:
    """Collects nodes and initializers; every value is named after its node."""

    def __init__(self) -> None:
        """Start empty."""
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def initializer(self, name: str, value: Any) -> str:
        """Store a tensor under the name its framework gave it."""
        self.initializers.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def node(self, name: str, *inputs: str, output: str | None = None, **attrs: Any) -> str:
        """Add a node called ``scope/Operator`` and return the name of its output."""
        result = output or f"{name}_output_0"
        operator = name.rsplit("/", 1)[-1].split("_")[0]
        self.nodes.append(helper.make_node(operator, inputs, [result], name, **attrs))
        return result

    def constant(self, name: str, value: Any) -> str:
        """Add a Constant node."""
        tensor = numpy_helper.from_array(np.asarray(value), f"{name}_value")
        return self.node(name, value=tensor)


def _normalise(w: Writer, params: Params) -> str:
    image = w.node("/Cast", "image", to=TensorProto.FLOAT)
    mean = w.constant("/normalise/Constant", params["pixel_mean"])
    variance = w.constant("/normalise/Constant_1", params["pixel_variance"])
    epsilon = w.constant("/normalise/Constant_2", np.float32(EPSILON))
    variance = w.node("/normalise/Add", variance, epsilon)
    deviation = w.node("/normalise/Sqrt", variance)
    return w.node("/normalise/Div", w.node("/normalise/Sub", image, mean), deviation)


def _block(w: Writer, params: Params, n: int, x: str) -> str:
    weight = w.initializer(f"conv{n}.weight", params[f"conv{n}.weight"])
    statistics = [
        w.initializer(f"bn{n}.{name}", params[f"bn{n}.{part}"])
        for name, part in {
            "weight": "weight",
            "bias": "bias",
            "running_mean": "mean",
            "running_var": "variance",
        }.items()
    ]
    window = {"kernel_shape": [3, 3], "strides": [1, 1], "dilations": [1, 1]}
    x = w.node(f"/conv{n}/Conv", x, weight, group=1, pads=[1, 1, 1, 1], **window)
    x = w.node(f"/bn{n}/BatchNormalization", x, *statistics, epsilon=EPSILON, momentum=0.9)
    return w.node(f"/relu{n}/Relu", x)


def _flatten(w: Writer, x: str) -> str:
    """``x.view(x.size(0), -1)``."""
    first, axes = w.constant("/Constant", np.int64(0)), w.constant("/Constant_1", [0])
    batch = w.node("/Gather", w.node("/Shape", x), first, axis=0)
    rest = w.constant("/Constant_2", [-1])
    shape = w.node("/Concat", w.node("/Unsqueeze", batch, axes), rest, axis=0)
    return w.node("/Reshape", x, shape)


def _dropout(w: Writer, n: int, x: str) -> str:
    ratio = w.initializer(f"dropout{n}.p", np.float32(DROPOUT))
    training = w.constant(f"/dropout{n}/Constant", np.bool_(False))
    return w.node(f"/dropout{n}/Dropout", x, ratio, training)


def build_model(params: Params, metadata: dict[str, str]) -> onnx.ModelProto:
    """Return the checked model: ``image`` [batch,1,8,8] to ``scores`` [batch,10], float32."""
    w = Writer()
    x = _normalise(w, params)
    x = w.node("/Identity", _block(w, params, 2, _block(w, params, 1, x)))
    x = w.node("/pool/MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = _dropout(w, 1, _flatten(w, x))
    weight = w.initializer("fc1.weight", params["fc1.weight"].T)
    bias = w.initializer("fc1.bias", params["fc1.bias"])
    x = w.node("/fc1/Gemm", x, weight, bias, alpha=1.0, beta=1.0, transB=1)
    x = _dropout(w, 2, w.node("/relu3/Relu", x))
    weight = w.initializer("fc2.weight", params["fc2.weight"])
    x = w.node("/fc2/MatMul", x, weight)
    bias = w.initializer("fc2.bias", params["fc2.bias"])
    x = w.node("/fc2/Add", x, bias)
    w.node("/loss/LogSoftmax", x, axis=-1)
    w.node("/Identity_1", x, output="scores")

    def value(name: str, *shape: int | str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        w.nodes,
        "main_graph",
        [value("image", "batch", 1, 8, 8)],
        [value("scores", "batch", 10)],
        w.initializers,
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="examples/digits/train.py",
        doc_string="Handwritten digits, 8x8 grey values in [0, 1], to ten scores.",
    )
    helper.set_model_props(model, metadata)
    onnx.checker.check_model(model, full_check=True)
    return model
