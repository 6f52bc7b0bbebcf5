import onnx
import onnx_ir as ir

from onnx_passes.configs.pipeline_files import load_config
from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.cleanup.remove_inferred_shapes import RemoveInferredShapes
from onnx_passes.pipeline.run import run_pipeline
from tests.tables import each_row

HEADER = '<ir_version: 10, opset_import: ["" : 20, "acme" : 1]> m '


def annotated(text):
    model = ir.from_onnx_text(HEADER + text)
    ShapeInference()(model)
    return model


def test_inner_values_lose_their_annotations():
    model = annotated("(float[N,4] x) => (float[N,4] y) { t = Relu(x) y = Neg(t) }")
    before = ir.to_proto(model)
    assert RemoveInferredShapes()(model).modified
    assert not RemoveInferredShapes()(model).modified
    after = ir.to_proto(model)
    assert (len(before.graph.value_info), len(after.graph.value_info)) == (1, 0)
    assert before.graph.output == after.graph.output
    onnx.checker.check_model(after, full_check=True)


def test_in_subgraphs():
    model = annotated("""(bool k, float[N] x) => (float[N] y) { y = If(k) <
          then_branch = g () => (float[N] t) { u = Abs(x) t = Neg(u) },
          else_branch = h () => (float[N] e) { e = Neg(x) }> }""")
    assert RemoveInferredShapes()(model).modified
    branch = model.graph[0].attributes["then_branch"].as_graph()
    assert branch[0].outputs[0].shape is None
    assert branch.outputs[0].type is not None


@each_row("""text
outputs: (float[N] x) => (float[N] y) { y = Neg(x) }
operators-that-are-not-of-the-standard: (float[N] x) => (float[N] y) <float[M] t> {
  t = acme.Op(x) y = Neg(t) }
""")
def test_leaves_alone(text, leaves_alone):
    leaves_alone(ir.from_onnx_text(HEADER + text))


def test_a_simplified_model_of_many_small_nodes_is_not_bigger_than_before():
    chain = " ".join(f"t{k + 1} = {('Relu', 'Neg')[k % 2]}(t{k})" for k in range(20))
    text = f"(float[N,4] t0) => (float[N,4] y) {{ {chain} y = Abs(t20) }}"
    model = ir.from_onnx_text(HEADER + text)
    size = ir.to_proto(model).ByteSize()
    run = run_pipeline(model, load_config("simplify"))
    run.raise_for_failure()
    names = sum(len(node.name or "") + 2 for node in run.model.graph)
    assert ir.to_proto(run.model).ByteSize() <= size + names
