"""Nodes out of order are not a fault: every preset puts them in order before it checks."""

import onnx_ir as ir

from onnx_passes.configs.pipeline_files import load_config, shipped_configs
from onnx_passes.configs.resolve import resolve
from tests.tables import each_of


@each_of("config", *shipped_configs())
def test_a_preset_sorts_nodes_before_its_checker_refuses_their_order(config):
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 18]>
        g (float[3] x) => (float[3] o) { t = Exp(x) o = Neg(t) }""")
    model.graph.extend(reversed(list(model.graph)))
    for step in resolve(load_config(config)).passes[:2]:
        model = step.make({}, {})(model).model
    assert [node.op_type for node in model.graph] == ["Exp", "Neg"]
