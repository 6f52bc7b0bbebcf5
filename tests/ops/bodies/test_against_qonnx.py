"""Bodies against what qonnx 1.0.0 computes, bit for bit; see ``make_golden.py``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from onnx_passes.ops.bodies import attach_bodies
from tests.ops.bodies.cases import GROUPS, Case
from tests.tables import each_of

GOLDEN = Path(__file__).parent / "golden.npz"
COUNTS = {"int_quant": 1728, "float_quant": 30, "trunc": 168, "thresholds": 18, "others": 12}


def computed(cases: list[Case], opset: int) -> list[np.ndarray]:
    """Run cases as nodes of one model; making a session takes longer than running a node."""
    nodes, infos, outputs, feeds = [], [], [], {}
    domains = {case.domain: case.version for case in cases}
    for number, case in enumerate(cases):
        names = [f"x{number}_{i}" for i in range(len(case.inputs))]
        for name, value in zip(names, case.inputs, strict=True):
            infos.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape))
            feeds[name] = value
        y = f"y{number}"
        nodes.append(
            helper.make_node(case.op_type, names, [y], domain=case.domain, **case.attributes)
        )
        outputs.append(helper.make_tensor_value_info(y, TensorProto.FLOAT, None))
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(domain, version) for domain, version in domains.items()]
    graph = helper.make_graph(nodes, "cases", infos, outputs)
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    assert attach_bodies(model)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


def expected(group: str) -> list[np.ndarray]:
    with np.load(GOLDEN) as arrays:
        if group in arrays:
            return list(arrays[group])
        count = sum(name.startswith(f"{group}_") for name in arrays)
        return [arrays[f"{group}_{i}"] for i in range(count)]


@each_of("opset", 13, 21)
@each_of("group", *GROUPS)
def test_bit_for_bit(group, opset):
    cases, wanted = list(GROUPS[group]()), expected(group)
    assert len(cases) == len(wanted) == COUNTS[group]
    for start in range(0, len(cases), 216):
        part = cases[start : start + 216]
        for case, actual, want in zip(
            part, computed(part, opset), wanted[start : start + 216], strict=True
        ):
            name = f"{case.op_type} {case.attributes}"
            np.testing.assert_array_equal(actual, want, err_msg=name)
            signs = np.isfinite(want)
            np.testing.assert_array_equal(
                np.signbit(actual[signs]), np.signbit(want[signs]), err_msg=name
            )
