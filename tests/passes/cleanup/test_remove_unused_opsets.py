import onnx_ir as ir

from onnx_passes.passes.cleanup.remove_unused_opsets import RemoveUnusedOpsets
from tests.tables import pass_cases


def test_removes_an_import_that_no_node_needs(rewrites):
    model = rewrites("""<ir_version: 10, opset_import: ["" : 20, "ai.onnx.ml" : 3]>
        m (float[N] x) => (float[N] y) { y = Exp(x) }""")
    assert model.opset_imports == {"": 20}


def test_keeps_what_only_a_subgraph_or_function_needs(leaves_alone):
    model = leaves_alone("""<ir_version: 10, opset_import: ["" : 20, "ai.onnx.ml" : 3, "l" :
        1]> m (bool c, float[N] x) => (float[N] y) { y = If(c) <
            then_branch = g () => (float[N] t) { t = l.F(x) },
            else_branch = h () => (float[N] e) { e = Neg(x) }> }
        <domain: "l", opset_import: ["ai.onnx.ml" : 3]>
        F (a) => (b) { b = ai.onnx.ml.Binarizer(a) }""")
    assert set(model.opset_imports) == {"", "ai.onnx.ml", "l"}


test_cases = pass_cases("""
keeps the default domain where every node is of another: <ir_version: 10, opset_import: ["" :
  20, "ai.onnx.ml" : 3]> m (float[N] x) => (float[N] y) { y = ai.onnx.ml.Binarizer(x) }
""")


def test_keeps_the_only_import_if_no_domain_in_use_is_imported():
    model = ir.from_onnx_text("""<ir_version: 7, opset_import: ["com.example" : 1]>
        m (float[N] x) => (float[N] y) { y = com.microsoft.Gelu(x) }""")
    assert not RemoveUnusedOpsets()(model).modified
    assert model.opset_imports == {"com.example": 1}


def test_cleans_the_imports_of_functions(rewrites):
    model = rewrites("""<ir_version: 10, opset_import: ["" : 20, "l" : 1]>
        m (float[N] x) => (float[N] y) { y = l.F(x) }
        <domain: "l", opset_import: ["" : 20, "ai.onnx.ml" : 3]>
        F (a) => (b) { b = Exp(a) }""")
    (function,) = model.functions.values()
    assert function.opset_imports == {"": 20}
