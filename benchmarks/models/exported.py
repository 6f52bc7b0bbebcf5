"""ResNet-50 with what exporters leave behind, which an optimiser removes."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from benchmarks.models.resnet import resnet50


def exported_resnet50(seed: int = 0) -> onnx.ModelProto:
    """Return ResNet-50 with 49 Identity nodes, a Dropout for inference, and a scale.

    Behind each Relu is an Identity, as hooks leave it. The Dropout before the last layer drops
    nothing. The scale of the scores, 1 and a shape of 1, are computed from constants, which
    folds. Input and output are those of ``resnet50``.
    """
    model = resnet50(seed)
    nodes, renamed = [], {}
    for node in model.graph.node:
        inputs = [renamed.get(name, name) for name in node.input]
        del node.input[:]
        node.input.extend(inputs)
        if node.op_type == "Gemm":
            nodes.append(helper.make_node("Dropout", [node.input[0]], ["kept"], "dropout"))
            node.input[0], node.output[0] = "kept", "logits"
        nodes.append(node)
        if node.op_type == "Relu":
            (result,) = node.output
            renamed[result] = f"{result}_hooked"
            nodes.append(
                helper.make_node("Identity", [result], [renamed[result]], f"{node.name}_hook")
            )
    half = numpy_helper.from_array(np.float32(0.5).reshape(()))
    nodes += [
        helper.make_node("Constant", [], ["half"], "half", value=half),
        helper.make_node("Add", ["half", "half"], ["scale"], "scale"),
        helper.make_node("Mul", ["logits", "scale"], ["scores"], "scaled"),
    ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.checker.check_model(model, full_check=True)
    return model
