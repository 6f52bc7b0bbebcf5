"""The search for inputs on which a model runs ends, whether or not it finds any."""

import onnx_ir as ir
import pytest

from onnx_passes.errors import EngineError
from onnx_passes.runtime.inputs import Substitutes, substitutes

TEXT = """<ir_version: 10, opset_import: ["" : 20]>
    g (float[batch,seq,8] x) => (float[?,?,?] y)
    { y = Relu(x) }"""


class RunsOnNothing:
    def run(self, feeds, names=None):
        raise EngineError("no")


@pytest.mark.parametrize(("seconds", "once"), [(0.0, True), (600.0, False)])
def test_no_other_way_is_tried_once_the_time_is_over(monkeypatch, seconds, once):
    monkeypatch.setattr(substitutes, "SECONDS", seconds)
    search = Substitutes(ir.from_onnx_text(TEXT))
    assert search.search(RunsOnNothing()) is None
    assert (len(search.tried) == 1) == once
