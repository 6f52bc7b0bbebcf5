import numpy as np
import onnx_ir as ir

from onnx_passes.passes.eliminate.eliminate_identity import EliminateIdentity
from onnx_passes.passes.folding.lift_constants import LiftConstants
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.testing import parse
from onnx_passes.verify.recording import Recording, expose_values, inlined
from onnx_passes.verify.region import changed_region, region_model
from tests.tables import each_of

TEXT = """(float[2,N] x) => (float[2,N] y) {
    a = Relu(x)  i = Identity(a)  c = Constant<value = float {2}>()
    b = Mul(i, c)  d = Exp(b)  y = Neg(d) }"""


def pair(change):
    before, after = parse(TEXT), parse(TEXT)
    change(after)
    return before, after


def test_nothing_changed_is_an_empty_region():
    region = changed_region(*pair(lambda model: None))
    assert (region.nodes, region.boundary, region.frontier) == ((), (), ())


def replaced(operator):
    """Put another operator, which reads ``a``, in place of the Mul."""

    def change(model):
        EliminateIdentity()(model)
        (mul,) = (n for n in model.graph if n.op_type == "Mul")
        node = ir.Node("", operator, mul.inputs)
        value, node.outputs[0].name = mul.outputs[0], "b"
        value.replace_all_uses_with(node.outputs[0])
        model.graph.insert_after(mul, node)
        model.graph.remove(mul, safe=True)

    return change


def test_the_reader_of_an_eliminated_identity_reads_what_it_did():
    assert changed_region(*pair(EliminateIdentity())).nodes == ()


def test_a_node_that_became_an_identity_makes_its_readers_new():
    text = "(float[2,N] x) => (float[2,N] y) {{ a = {}(x)  b = Exp(a)  y = Neg(b) }}"
    region = changed_region(parse(text.format("Neg")), parse(text.format("Identity")))
    assert [node.op_type for node in region.nodes] == ["Identity", "Exp"]
    assert (region.boundary, region.frontier) == (("x",), ("b",))


def test_what_is_read_through_a_new_identity_is_on_the_frontier():
    text = "(float[2,N] x) => (float[2,N] y) {{ a = {}(x)  i = {}(a)  {} }}"
    region = changed_region(
        parse(text.format("Neg", "Abs", "y = Exp(a)")),
        parse(text.format("Sin", "Identity", "y = Exp(i)")),
    )
    assert [node.op_type for node in region.nodes] == ["Sin", "Identity"]
    assert set(region.frontier) == {"a", "i"}


def test_where_a_constant_is_stored_does_not_matter():
    assert changed_region(*pair(lambda model: LiftConstants()(model))).nodes == ()


def test_a_changed_weight_makes_its_reader_new():
    def change(model):
        LiftConstants()(model)
        (weight,) = model.graph.initializers.values()
        weight.const_value = ir.tensor(np.float32(3), name=weight.name)

    assert [node.op_type for node in changed_region(*pair(change)).nodes] == ["Mul"]


def test_a_change_inside_a_branch_makes_its_if_new():
    text = """(float[2,N] x, bool c) => (float[2,N] y) {{ s = Exp(x)
        y = If (c) <then_branch = t () => (float[2,N] p) {{ p = {}(s) }},
                    else_branch = e () => (float[2,N] q) {{ q = Neg(s) }}> }}"""
    region = changed_region(parse(text.format("Relu")), parse(text.format("Abs")))
    assert [node.op_type for node in region.nodes] == ["If"]
    assert set(region.boundary) == {"c", "s"}


def test_operators_that_a_newer_opset_does_not_change_are_kept():
    def change(model):
        model.opset_imports[""] = 21

    region = changed_region(*pair(change))
    # Opset 21 has another version of Identity, and none of the others.
    assert {node.op_type for node in region.nodes} == {"Identity"}


@each_of("operator, equal", ("Add", True), ("Sub", False))
def test_the_region_runs_on_recorded_values(operator, equal):
    before, after = pair(replaced(operator))
    feeds = {"x": np.full((2, 3), 2, np.float32)}
    engine = OnnxRuntimeEngine()
    recording = Recording(1 << 20)
    with engine.prepare(expose_values(before)) as session:
        recording.update(session.run(feeds))
    region = changed_region(before, after)
    with engine.prepare(region_model(after, region, [recording])) as session:
        outputs = session.run({name: recording[name] for name in region.boundary})
    assert np.array_equal(outputs["b"], recording["b"]) is equal


def test_another_default_of_an_input_leaves_it_to_the_whole_model():
    text = (
        "(float[2] x, float[2] w) => (float[2] y) <float[2] w = {{1, {}}}> {{ y = Mul(x, w) }}"
    )
    assert changed_region(parse(text.format(2)), parse(text.format(3))) is None


def test_an_output_that_became_a_constant_is_not_overlooked():
    # No node of the region computes it, so that a region check said that nothing had changed.
    before = parse(
        "(float[2] x) => (float[2] y) { a = Constant<value = float[2] {1, 2}>() y = Neg(a) }"
    )
    after = parse("(float[2] x) => (float[2] y) { y = Constant<value = float[2] {1, 2}>() }")
    assert changed_region(before, after) is None


def test_a_constant_is_what_its_node_says_whatever_is_noted_at_its_output():
    def change(model):
        (constant,) = (n for n in model.graph if n.op_type == "Constant")
        constant.outputs[0].const_value = constant.attributes["value"].as_tensor()
        constant.attributes["value"] = ir.AttrTensor("value", ir.tensor(np.float32(3)))

    assert [node.op_type for node in changed_region(*pair(change)).nodes] == ["Mul"]


FUNCTIONS = """<ir_version: 9, opset_import: ["" : 18, "local" : 1]>
    m (float[2,N] x) => (float[2,N] y) {{ a = Relu(x)  b = local.outer(a)  y = Neg(b) }}
    <domain: "local", opset_import: ["" : 18, "local" : 1]>
    outer (p) => (q) {{ r = Exp(p)  q = local.inner(r) }}
    <domain: "local", opset_import: ["" : 18]>
    inner (p) => (q) {{ q = {}(p) }}"""


def functions(operator):
    return ir.from_onnx_text(FUNCTIONS.format(operator))


def test_a_call_is_new_where_a_function_behind_it_changed():
    assert changed_region(functions("Abs"), functions("Abs")).nodes == ()
    region = changed_region(functions("Abs"), functions("Sin"))
    assert [node.op_type for node in region.nodes] == ["outer"]
    assert (region.boundary, region.frontier) == (("a",), ("b",))


def test_a_call_runs_with_the_functions_behind_it():
    after = functions("Sin")
    region = changed_region(functions("Abs"), after)
    values = {"a": np.ones((2, 3), np.float32)}
    with OnnxRuntimeEngine().prepare(region_model(after, region, [values])) as session:
        np.testing.assert_allclose(session.run(values)["b"], np.sin(np.exp(values["a"])), 1e-6)


def test_inlined_only_what_changed_in_a_body_is_new():
    before, after = inlined(functions("Abs")), inlined(functions("Sin"))
    assert [node.op_type for node in changed_region(before, after).nodes] == ["Sin"]
