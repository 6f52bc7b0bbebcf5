"""Write what qonnx computes for the cases beside this file: ``golden.npz``.

Run it where qonnx 1.0.0 is installed; the tests need the file only.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper
from qonnx.core.datatype import DataType
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.custom_op.registry import getCustomOp

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))

from cases import GENERAL, GROUPS, Case  # noqa: E402


def expected(case: Case) -> np.ndarray:
    """Return what qonnx computes for a node."""
    names = [f"in{i}" for i in range(len(case.inputs))]
    node = helper.make_node(case.op_type, names, ["y"], domain=case.domain, **case.attributes)
    infos = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape)
        for n, v in zip(names, case.inputs, strict=True)
    ]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    model = ModelWrapper(
        helper.make_model(
            helper.make_graph([node], "case", infos, [out]),
            opset_imports=[
                helper.make_opsetid("", 13),
                helper.make_opsetid(case.domain, case.version),
            ],
            ir_version=8,
        )
    )
    model.set_tensor_datatype("in0", DataType["INT8"])
    for name, value in list(zip(names, case.inputs, strict=True))[1:]:
        model.set_initializer(name, value)
    operator = getCustomOp(model.graph.node[0], case.version)
    if case.domain != GENERAL:
        operator.onnx_opset_version = 13  # of the standard operator that it runs
    context = dict(zip(names, case.inputs, strict=True))
    context["y"] = _like(case)
    with np.errstate(all="ignore"):
        operator.execute_node(context, model.graph)
    return np.asarray(context["y"], dtype=np.float32)


def _like(case: Case) -> np.ndarray:
    """Return an array of the output's rank: all that qonnx reads of it."""
    return np.zeros((1,) * case.inputs[0].ndim, np.float32)


if __name__ == "__main__":
    arrays = {}
    for group, cases in GROUPS.items():
        results = [expected(case) for case in cases()]
        same = {r.shape for r in results}
        if len(same) == 1:
            arrays[group] = np.stack(results)
        else:
            arrays |= {f"{group}_{i}": r for i, r in enumerate(results)}
        print(group, len(results))
    np.savez_compressed(FOLDER / "golden.npz", **arrays)
