import onnx
import onnx_ir as ir

from onnx_passes.model.walk import all_graphs, all_nodes
from onnx_passes.passes.cleanup.unique_names import UniqueNames
from onnx_passes.testing import parse

BRANCHES = """(bool c, float[N] x) => (float[N] y) { y = If(c) <
  then_branch = g () => (float[N] r) { t = Exp(x) r = Neg(t) },
  else_branch = h () => (float[N] r) { t = Abs(x) r = Neg(t) }> }"""


def value_names(model):
    return [v.name for node in all_nodes(model) for v in node.outputs]


def test_names_that_branches_share_become_unique(rewrites):
    names = value_names(rewrites(BRANCHES))
    assert len(set(names)) == len(names)
    assert {"t", "t_1", "r", "r_1"} <= set(names)


def test_names_of_inputs_and_outputs_win_against_inner_ones(rewrites):
    model = rewrites("""<ir_version: 10, opset_import: ["" : 20, "l" : 1]>
        m (float[N] a) => (float[N] b) { b = l.F(a) }
        <domain: "l", opset_import: ["" : 20]> F (a) => (b) { t = Exp(a) b = Neg(t) }""")
    assert [v.name for v in (*model.graph.inputs, *model.graph.outputs)] == ["a", "b"]
    (function,) = model.functions.values()
    assert [v.name for v in (*function.inputs, *function.outputs)] == ["a_1", "b_1"]
    onnx.checker.check_model(ir.to_proto(model), full_check=True)


def test_a_made_up_name_avoids_one_that_comes_later(rewrites):
    model = rewrites("""(bool c, float[N] x) => (float[N] y) { y = If(c) <
          then_branch = g () => (float[N] r) { t = Exp(x) r = Neg(t) },
          else_branch = h () => (float[N] s) { t = Abs(x) t_1 = Abs(t) s = Neg(t_1) }> }""")
    assert {"t", "t_1", "t_2"} <= set(value_names(model))


def test_nodes_get_names(rewrites):
    model = rewrites("""(float[N] x) => (float[N] y)
        { [add] a = Add(x, x) [add] b = Add(a, x) y = Neg(b) }""")
    names = [node.name for node in model.graph]
    assert names[:2] == ["add", "add_1"]
    assert len(set(names)) == 3


def test_an_optional_output_that_is_left_out_stays_out(rewrites):
    """onnx-ir's NameFixPass names it, which makes it present."""
    model = rewrites("""(float[2,1,3] x, float[1,8,3] w, float[1,8,2] r) => (float[1,1,2] c)
        { "", "", c = LSTM<hidden_size = 2>(x, w, r) }""")
    assert [v.name for v in model.graph[0].outputs] == ["", "", "c"]


def test_quantization_annotations_follow():
    proto = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 20]>
        m (bool c, float[1] x) => (float[1] y) <float s = {1}> { y = If(c) <
          then_branch = g () => (float[1] r) <float s2 = {1}> { t = Exp(x) r = Neg(t) },
          else_branch = h () => (float[1] q) { q = Neg(x) }> }""")
    branch = proto.graph.node[0].attribute[0].g
    branch.initializer[0].name = "s"  # hides the outer one
    annotation = branch.quantization_annotation.add(tensor_name="t")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    model = ir.from_proto(proto)
    UniqueNames()(model)
    branch = ir.to_proto(model).graph.node[0].attribute[0].g
    assert branch.initializer[0].name == "s_1"
    (entry,) = branch.quantization_annotation[0].quant_parameter_tensor_names
    assert entry.value == "s_1"


def test_leaves_alone_unique_names():
    model = parse("""(float[N] x) => (float[N] y) { [a] t = Exp(x) [b] y = Neg(t) }""")
    before = ir.to_onnx_text(model)
    assert not UniqueNames()(model).modified
    assert ir.to_onnx_text(model) == before
    assert len(list(all_graphs(model))) == 1
