import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.verify.well_formed import MOST, check_structure

HEADER = '<ir_version: 10, opset_import: ["" : 20]> '
CHAIN = "main (float[2] x) => (float[2] y) { [first] a = Relu(x) [second] y = Neg(a) }"
BRANCH = """main (bool c, float[2] x) => (float[2] y) {
  [pick] y = If (c) <
    then_branch = yes () => (float[2] t) { [inner] t = Relu(x) },
    else_branch = no () => (float[2] e) { [other] e = Neg(x) }
  >
}"""


def model(text=CHAIN):
    return ir.from_onnx_text(HEADER + text)


def named(model, name):
    return next(n for n in ir.traversal.RecursiveGraphIterator(model.graph) if n.name == name)


def constant(name, shape, declared=None, dtype=np.float32):
    return ir.Value(
        name=name,
        const_value=ir.tensor(np.zeros(shape, dtype), name=name),
        shape=ir.Shape(declared if declared is not None else shape),
        type=ir.TensorType(ir.DataType.FLOAT),
    )


@pytest.mark.parametrize("text", [CHAIN, BRANCH])
def test_finds_nothing_in_a_sound_model(text):
    assert check_structure(model(text)) == []
    assert check_structure(model(text), full=True) == []


def test_dangling_value():
    broken = model()
    named(broken, "second").replace_input_with(0, ir.Value(name="ghost"))
    assert check_structure(broken) == [
        "node 'second' (Neg) uses 'ghost', which nothing defines"
    ]


def test_value_of_a_removed_node():
    broken = model()
    broken.graph.remove(named(broken, "first"))
    assert check_structure(broken) == [
        "node 'second' (Neg) uses 'a', which came from node 'first' (Relu), "
        "a node that was removed"
    ]


def test_value_from_inside_a_branch():
    broken = model(BRANCH)
    use = ir.node("Neg", [named(broken, "inner").outputs[0]], name="use")
    broken.graph.append(use)
    assert check_structure(broken) == [
        "node 'use' (Neg) uses 't', which node 'inner' (Relu) computes out of reach, "
        "in another graph"
    ]


def test_cycle_names_its_nodes():
    broken = model()
    named(broken, "first").replace_input_with(0, named(broken, "second").outputs[0])
    (sentence,) = check_structure(broken)
    assert "cycle" in sentence
    assert "first" in sentence
    assert "second" in sentence


def test_cycle_through_a_branch():
    broken = model(BRANCH)
    named(broken, "inner").replace_input_with(0, named(broken, "pick").outputs[0])
    assert "pick" in check_structure(broken)[0]


def test_nodes_out_of_order():
    broken = model()
    second = named(broken, "second")
    broken.graph.remove(second)
    broken.graph.insert_before(named(broken, "first"), second)
    assert check_structure(broken) == [
        "node 'second' (Neg) uses 'a', which comes later, from node 'first' (Relu); "
        "topological-sort puts nodes in order"
    ]


def test_one_name_for_two_values():
    broken = model()
    named(broken, "first").outputs[0].name = "x"
    assert check_structure(broken) == [
        "the name 'x' is defined twice: again as output of node 'first' (Relu)"
    ]


def test_a_branch_may_not_reuse_an_outer_name():
    broken = model(BRANCH)
    named(broken, "inner").outputs[0].name = "x"
    assert "the name 'x' is defined twice" in check_structure(broken)[0]


def test_two_branches_may_share_a_name():
    sound = model(BRANCH)
    named(sound, "inner").outputs[0].name = "same"
    named(sound, "other").outputs[0].name = "same"
    assert check_structure(sound) == []


def test_value_without_a_name():
    broken = model()
    named(broken, "first").outputs[0].name = ""
    assert check_structure(broken) == ["an output of node 'first' (Relu) has no name"]


def test_missing_opset_import():
    broken = model(BRANCH)
    named(broken, "inner").domain = "com.example"
    assert check_structure(broken) == [
        "node 'inner' (Relu) in the subgraph of node 'pick' (If) is of the domain "
        "'com.example', which has no opset import"
    ]


def test_missing_opset_import_of_a_function():
    broken = ir.from_onnx_text(
        HEADER.replace("]", ', "my" : 1]')
        + "main (float[2] x) => (float[2] y) { y = my.f(x) }"
        + '<domain: "my", opset_import: ["" : 20]> f (a) => (b) { [n] b = Relu(a) }'
    )
    assert check_structure(broken) == []
    (function,) = broken.functions.values()
    next(iter(function)).domain = "gone"
    assert "node 'n' (Relu) of function my::f is of the domain" in check_structure(broken)[0]


def test_graph_without_outputs():
    broken = model()
    broken.graph.outputs.clear()
    assert check_structure(broken) == ["the model has no outputs"]


def test_output_that_nothing_computes():
    broken = model()
    broken.graph.outputs[0] = ir.Value(name="ghost")
    assert check_structure(broken) == [
        "the graph output 'ghost' has no definition: which nothing defines"
    ]


def test_output_listed_twice():
    broken = model()
    broken.graph.outputs.append(broken.graph.outputs[0])
    assert check_structure(broken) == ["the graph output 'y' is listed twice"]


def test_branch_that_returns_an_outer_value():
    broken = model(BRANCH)
    outer = ir.node("Neg", [broken.graph.inputs[1]], name="outer")
    outer.outputs[0].name = "o"
    broken.graph.insert_before(named(broken, "pick"), outer)
    named(broken, "inner").graph.outputs[0] = outer.outputs[0]
    assert check_structure(broken) == [
        "the graph output 'o' in the subgraph of node 'pick' (If) is a value of an outer "
        "graph; it needs an Identity"
    ]


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (constant("w", [2], [3]), "initializer 'w' is declared [3], and holds [2]"),
        (constant("w", [2], [2, 1]), "initializer 'w' is declared [2,1], and holds [2]"),
        (
            constant("w", [2], dtype=np.int64),
            "initializer 'w' is declared float, and holds int64",
        ),
    ],
)
def test_initializer_that_is_not_what_it_declares(value, sentence):
    broken = model()
    broken.graph.register_initializer(value)
    assert check_structure(broken) == [sentence]


def test_initializer_without_a_value():
    broken = model()
    value = constant("w", [2])
    broken.graph.register_initializer(value)
    value.const_value = None
    assert check_structure(broken) == ["initializer 'w' has no value"]


def test_initializers_of_old_models_are_inputs():
    broken = model()
    broken.graph.register_initializer(constant("w", [2]))
    broken.ir_version = 3
    assert check_structure(broken) == [
        "initializer 'w' is not a graph input, as IR version 3 demands"
    ]


def test_a_large_constant_is_no_initializer_of_an_old_model():
    sound = model()
    node = ir.node("Constant", [], {"value": ir.tensor(np.zeros((64, 64), np.float32))})
    sound.graph.insert_before(named(sound, "first"), node)
    sound.ir_version = 3
    assert check_structure(sound) == []


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            "[n] y = NoSuchOperator(x)",
            "node 'n' (NoSuchOperator): No Op registered for NoSuchOperator with "
            "domain_version of 20",
        ),
        (
            "[n] y = Relu <alpha = 1> (x)",
            "node 'n' (Relu): Unrecognized attribute: alpha for operator Relu",
        ),
        (
            "y = Add(x)",
            "the Add node that computes 'y': under schema ::Add:14 it has input size 1 not in "
            "range [min=2, max=2]",
        ),
    ],
)
def test_asks_the_checker_for_what_operators_demand(body, sentence):
    text = f"main (float[2] x) => (float[2] y) {{ {body} }}"
    assert check_structure(model(text)) == [sentence]


def test_full_infers_types_and_shapes():
    text = "main (float[2] x, int64[2] k) => (float[2] y) { a = Add(x, k) [n] y = Neg(a) }"
    assert check_structure(model(text)) == []
    (sentence,) = check_structure(model(text), full=True)
    assert sentence.startswith("the Add node that computes 'a': ")
    assert "int64" in sentence


def test_a_broken_model_does_not_flood_the_report():
    broken = model()
    first = named(broken, "first")
    for index in range(MOST + 5):
        broken.graph.append(ir.node("Neg", [ir.Value(name=f"ghost{index}")], name=f"n{index}"))
    assert first.graph is broken.graph
    found = check_structure(broken)
    assert len(found) == MOST + 1
    assert found[-1] == "5 more faults like these"


def test_large_weights_are_neither_written_nor_changed(monkeypatch):
    sound = model("main (float[2] x) => (float[2] y) { y = Add(x, w) }")
    weight = constant("w", [1024, 1024])
    sound.graph.register_initializer(weight)
    next(iter(sound.graph)).replace_input_with(1, weight)
    monkeypatch.setattr(ir.Tensor, "tobytes", lambda self: pytest.fail("weights were read"))
    assert check_structure(sound) == []
    assert sound.graph.initializers["w"].const_value is weight.const_value


def test_what_the_checker_cannot_read_is_a_fault():
    text = (
        f"{HEADER}g (float[2] x) => (float[2] y) {{ y = Cast<to = -9223372036854775808>(x) }}"
    )
    assert check_structure(ir.from_onnx_text(text), full=True)
