import math
from pathlib import Path

import onnx_ir as ir
import pytest

from onnx_passes.errors import PassError
from onnx_passes.tuning.choice import find_culprits
from onnx_passes.tuning.groups import BUILTIN, prepare

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


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
