import onnx_ir as ir
import pytest

from onnx_passes.config.load import config_from_data
from onnx_passes.passes.convert.raise_opset import RaiseOpset
from onnx_passes.pipeline.run import run_pipeline


def model(opset, body="y = Relu(x)"):
    header = f'<ir_version: 8, opset_import: ["" : {opset}]> m '
    return ir.from_onnx_text(header + f"(float[2] x) => (float[?] y) {{ {body} }}")


def test_an_older_opset_is_raised():
    old = model(12, "t = Unsqueeze<axes = [0]>(x) y = Relu(t)")
    run = run_pipeline(old, config_from_data({"passes": ["raise-opset"]}))
    run.raise_for_failure()
    assert run.model.graph.opset_imports[""] == 21
    assert [n.op_type for n in run.model.graph] == ["Constant", "Unsqueeze", "Relu"]


@pytest.mark.parametrize("opset", [21, 22])
def test_a_newer_opset_stays(opset, leaves_alone):
    newer = model(opset)
    assert not RaiseOpset()(newer).modified
    assert newer.graph.opset_imports[""] == opset


def test_what_has_no_equivalent_stays_with_a_note():
    old = model(8, "y = Upsample<scales = [2.0]>(x)")
    old.graph.opset_imports[""] = 7
    pass_ = RaiseOpset(version=10_000)
    assert not pass_(old).modified
    (note,) = pass_.context.notes
    assert note.startswith("the opset stays: ")
    assert old.graph.opset_imports[""] == 7


def test_it_looks_into_subgraphs():
    old = ir.from_onnx_text(
        """<ir_version: 7, opset_import: ["" : 12]> m (bool k, float[2] x) => (float[1,2] y)
        { y = If(k) < then_branch = g () => (float[1,2] t) { t = Unsqueeze<axes = [0]>(x) },
        else_branch = h () => (float[1,2] e) { e = Unsqueeze<axes = [0]>(x) }> }"""
    )
    assert RaiseOpset()(old).modified
    branch = old.graph[0].attributes["then_branch"].as_graph()
    assert "axes" not in branch[-1].attributes


def test_softsign_of_double_still_runs():
    """ONNX Runtime has no kernel for it, and knows the function in opset 18 only."""
    old = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["" : 18]> m (double[2] x) => (double[2] y)
        { y = Softsign(x) }"""
    )
    pass_ = RaiseOpset()
    assert not pass_(old).modified
    assert "Softsign" in pass_.context.notes[0]
