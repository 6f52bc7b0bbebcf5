import onnx
import onnx_ir as ir

from onnx_passes.passes.cleanup.remove_unused_initializers import RemoveUnusedInitializers
from tests.tables import pass_cases

test_cases = pass_cases("""
removes in the graph and in branches: (bool c, float[1] x) => (float[1] y) <float[1] w = {1}> {
  y = If(c) < then_branch = g () => (float[1] t) <float[1] v = {2}> { t = Exp(x) }, else_branch
  = h () => (float[1] e) { e = Neg(x) }> } | (bool c, float[1] x) => (float[1] y) { y = If(c) <
  then_branch = g () => (float[1] t) { t = Exp(x) }, else_branch = h () => (float[1] e) { e =
  Neg(x) }> }
keeps what a branch reads and what belongs to the user: (bool c, float[1] x, float[1] d) =>
  (float[1] y, float[1] w) <float[1] w = {1}, float[1] v = {1}, float[1] d = {3}> { y = If(c) <
  then_branch = g () => (float[1] t) { t = Add(x, v) }, else_branch = h () => (float[1] e) { e
  = Neg(x) }> }
""")


def test_keeps_what_a_quantization_annotation_names():
    proto = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 20]>
        m (float[1] x) => (float[1] y) <float s = {1}> { t = Exp(x) y = Neg(t) }""")
    annotation = proto.graph.quantization_annotation.add(tensor_name="t")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    assert not RemoveUnusedInitializers()(ir.from_proto(proto)).modified
