import onnx_ir as ir

from onnx_passes.passes.analysis.operator_statistics import OperatorStatistics


def test_counts_nodes_and_weights_everywhere():
    model = ir.from_onnx_text("""<ir_version: 10, opset_import: ["" : 20, "l" : 1]>
        m (bool c, float[2] x) => (float[2] y) <float[2] w = {1, 2}>
        { o = Add(x, w) y = If(c) <
          then_branch = g () => (float[2] t) <float[2] v = {3, 4}> { t = Add(o, v) },
          else_branch = h () => (float[2] e) { e = l.F(o) }> }
        <domain: "l", opset_import: ["" : 20]> F (a) => (b) { b = Exp(a) }""")
    pass_ = OperatorStatistics()
    assert not pass_(model).modified
    found = pass_.context.analysis("operator-statistics")
    assert found.nodes == 5
    assert found.operators == {"Add": 2, "Exp": 1, "If": 1, "l::F": 1}
    assert (found.parameters, found.weight_bytes) == (4, 16)
    assert "5 nodes" in pass_.context.notes[0]
