import math
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.errors import PassError
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.testing import parse
from onnx_passes.tuning.choice import find_culprits
from onnx_passes.tuning.groups import BUILTIN, partition, prepare
from onnx_passes.tuning.loss_budget import LossBudget
from onnx_passes.tuning.search_record import Task

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


def overflowing():
    """A chain whose nodes 5 and 6 leave the range of float16: a square, and its root."""
    model = parse("""(float[4] x) => (float[4] y) { a = Neg(x) b = Abs(a) c = Identity(b)
        d = Sigmoid(c) e = Add(c, d) f = Mul(e, e) g = Sqrt(f) h = Neg(g) y = Tanh(h) }""")
    return prepare(model)


def test_the_nodes_that_overflow_are_found_among_others():
    model = overflowing()
    x = np.array([300.0, 280.0, 290.0, 310.0], np.float32)
    asked = Task(
        model,
        partition(model, ["float16"], {"all": ({"nodes": ["*"]}, [])}, 1),
        {"float32": BUILTIN["float32"], "float16": BUILTIN["float16"]},
        OnnxRuntimeEngine(),
        "size",
        LossBudget({"max_abs_error": (0.0, 1e-3)}),
        [{"x": x / 1e3}, {"x": x}],
        [{"x": x}],
    )
    model.graph.outputs.append(next(n.outputs[0] for n in model.graph if n.op_type == "Sqrt"))
    asked.budget.limits = {"rmse": (0.0, 1.0)}
    found = find_culprits(asked, BUILTIN["float16"])
    kinds = {n.name: n.op_type for n in model.graph}
    assert [kinds[name] for name in found.nodes] == ["Mul", "Sqrt"]
    assert found.spent.holds
    assert not found.without.holds
    assert found.runs < 2 ** len(kinds)


def test_nothing_is_to_blame_where_all_is_well(task):
    asked = task(limits={"snr": (20.0, math.inf)})
    found = find_culprits(asked, BUILTIN["float16"])
    assert (found.nodes, found.runs) == ((), 1)
    assert any(v.dtype is ir.DataType.FLOAT16 for n in found.model.graph for v in n.outputs)


def test_none_of_the_nodes_can_be_left_out(task):
    asked = task(limits={"snr": (33.0, math.inf)})
    item = BUILTIN["int4-weights"]
    found = find_culprits(asked, item)
    layers = [name for name in found.nodes if name in {g.name for g in asked.groups}]
    assert layers == list(found.nodes), "only layers have weights"
    assert 0 < len(layers) < 4


def test_a_pass_that_refuses_the_model_is_told(task, original):
    model = prepare(ir.load(DIGITS / "model.onnx"))
    asked = task(model=model, limits={"snr": (33.0, math.inf)})
    with pytest.raises(PassError, match="needs opset 21"):
        find_culprits(asked, BUILTIN["int4-weights"])
