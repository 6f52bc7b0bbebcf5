import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.testing import parse
from onnx_passes.verify.reference_data import ReferenceData
from onnx_passes.verify.well_formed import (
    MOST,
    CheckedNodes,
    check_structure,
    complaints,
    find_wrong_annotations,
    first_few,
)
from tests.tables import each_of, each_row

TEXT = """<ir_version: 10, opset_import: ["" : 20, "ai.onnx.ml" : 3]>
main (float[4] x, float[4] z) => (float[4] y) <float[4] w = {1, 2, 3, 4}> {
  a = Relu(x)
  k = Constant <value = float[1] {2}> ()
  b = Mul(a, k)
  c = Clip(b)
  d = Softmax <axis = 0> (c)
  e = Add(d, w)
  y = Add(e, z)
}"""

HEADER = '<ir_version: 10, opset_import: ["" : 20]> '
CHAIN = "main (float[2] x) => (float[2] y) { [first] a = Relu(x) [second] y = Neg(a) }"
BRANCH = """main (bool c, float[2] x) => (float[2] y) {
  [pick] y = If (c) <
    then_branch = yes () => (float[2] t) { [inner] t = Relu(x) },
    else_branch = no () => (float[2] e) { [other] e = Neg(x) }
  >
}"""


def model():
    return ir.from_onnx_text(TEXT)


def node(model, op):
    return next(n for n in model.graph if n.op_type == op)


def call_other_opset(model):
    model.opset_imports[""] = 12
    node(model, "Add").op_type = "Gelu"


def lack_attribute(model):
    softmax = node(model, "Softmax")
    softmax.op_type = "Cast"
    del softmax.attributes["axis"]


@each_row("""fault
give_too_many: =lambda m: node(m, 'Relu').resize_inputs(2) or node(m,
  'Relu').replace_input_with(1, m.graph.inputs[0])
give_none: =lambda m: node(m, 'Mul').replace_input_with(1, None)
misspell: =lambda m: setattr(node(m, 'Relu'), 'op_type', 'Rellu')
retype_attribute: =lambda m: node(m, 'Softmax').attributes.add(ir.AttrFloat32('axis', 0.0))
invent_attribute: =lambda m: node(m, 'Relu').attributes.add(ir.AttrFloat32('slope', 0.5))
call_other_opset: =call_other_opset
move_domain: =lambda m: setattr(node(m, 'Relu'), 'domain', 'ai.onnx.ml')
drop_result: =lambda m: setattr(node(m, 'Relu').outputs[0], 'name', '')
lack_attribute: =lack_attribute
""")
def test_finds_what_the_whole_checker_finds(fault):
    broken, known = model(), CheckedNodes()
    assert check_structure(broken, known=known) == []
    fault(broken)
    found = check_structure(broken)
    assert found
    assert check_structure(broken, known=known) == found
    assert check_structure(broken, known=known) == found, "a fault is never known as sound"
    assert check_structure(model(), known=known) == []


def test_asks_about_new_nodes_and_tensors_alone():
    asked, known, sound = [], CheckedNodes(), model()
    assert known.accept(sound, asked.append)
    assert {n.op_type for n in asked[0].graph.node} == {
        *("Relu", "Constant", "Mul", "Clip", "Softmax", "Add")
    }
    assert [t.name for t in asked[0].graph.initializer] == ["w"]
    assert known.accept(sound, asked.append)
    assert not asked[1].graph.node
    assert not asked[1].graph.initializer
    node(sound, "Softmax").attributes["axis"] = ir.AttrInt64("axis", -1)
    sound.graph.initializers["w"].const_value = ir.tensor(np.zeros(4, np.float32), name="w")
    assert known.accept(sound, asked.append)
    assert [n.op_type for n in asked[2].graph.node] == ["Softmax"]
    assert [t.name for t in asked[2].graph.initializer] == ["w"]


def test_another_opset_makes_everything_new():
    asked, known, sound = [], CheckedNodes(), model()
    known.accept(sound, asked.append)
    sound.opset_imports[""] = 21
    known.accept(sound, asked.append)
    assert len(asked[1].graph.node) == len(asked[0].graph.node)


def test_nodes_of_other_domains_are_always_asked_about():
    asked, known, sound = [], CheckedNodes(), model()
    node(sound, "Relu").domain = "com.example"
    sound.opset_imports["com.example"] = 1
    for _ in range(2):
        assert known.accept(sound, asked.append)
    assert [n.op_type for n in asked[1].graph.node] == ["Relu"]


def test_subgraphs_and_functions_are_left_to_the_whole_checker():
    branch = read(BRANCH)
    assert not CheckedNodes().accept(branch, lambda _: pytest.fail("asked"))
    assert complaints(branch, lenient=True, known=CheckedNodes()) == []
    node_ = branch.graph[0]
    node_.attributes["then_branch"].as_graph()[0].op_type = "Rellu"
    known = CheckedNodes()
    assert complaints(branch, lenient=True, known=known) == complaints(branch, lenient=True)
    assert complaints(branch, lenient=True, known=known)


def read(text=CHAIN):
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


@each_of("text", CHAIN, BRANCH)
def test_finds_nothing_in_a_sound_model(text):
    assert check_structure(read(text)) == []
    assert check_structure(read(text), full=True) == []


def swap(model):
    second = named(model, "second")
    model.graph.remove(second)
    model.graph.insert_before(named(model, "first"), second)


def return_outer_value(model):
    outer = ir.node("Neg", [model.graph.inputs[1]], name="outer")
    outer.outputs[0].name = "o"
    model.graph.insert_before(named(model, "pick"), outer)
    named(model, "inner").graph.outputs[0] = outer.outputs[0]


def rename(name):
    return lambda m: setattr(named(m, "first").outputs[0], "name", name)


def add(value, *, empty=False, version=10):
    def edit(model):
        model.graph.register_initializer(value)
        model.ir_version = version
        value.const_value = None if empty else value.const_value

    return edit


@each_row("""text | edit | sentence
a dangling value: =CHAIN | =lambda m: named(m, 'second').replace_input_with(0,
  ir.Value(name='ghost')) | node 'second' (Neg) uses 'ghost', which nothing defines
a value of a removed node: =CHAIN | =lambda m: m.graph.remove(named(m, 'first')) | node
  'second' (Neg) uses 'a', which came from node 'first' (Relu), a node that was removed
a value from inside a branch: =BRANCH | =lambda m: m.graph.append(ir.node('Neg', [named(m,
  'inner').outputs[0]], name='use')) | node 'use' (Neg) uses 't', which node 'inner' (Relu)
  computes out of reach, in another graph
nodes out of order: =CHAIN | =swap | node 'second' (Neg) uses 'a', which comes later, from node
  'first' (Relu); topological-sort puts nodes in order
one name for two values: =CHAIN | =rename('x') | the name 'x' is defined twice: again as output
  of node 'first' (Relu)
a branch may not reuse an outer name: =BRANCH | =lambda m: setattr(named(m,
  'inner').outputs[0], 'name', 'x') | the name 'x' is defined twice: again as output of node
  'inner' (Relu) in the subgraph of node 'pick' (If)
a value without a name: =CHAIN | =rename('') | an output of node 'first' (Relu) has no name
a missing opset import: =BRANCH | =lambda m: setattr(named(m, 'inner'), 'domain',
  'com.example') | node 'inner' (Relu) in the subgraph of node 'pick' (If) is of the domain
  'com.example', which has no opset import
no outputs: =CHAIN | =lambda m: m.graph.outputs.clear() | the model has no outputs
an output that nothing computes: =CHAIN | =lambda m: m.graph.outputs.__setitem__(0,
  ir.Value(name='ghost')) | the graph output 'ghost' has no definition: which nothing defines
an output listed twice: =CHAIN | =lambda m: m.graph.outputs.append(m.graph.outputs[0]) | the
  graph output 'y' is listed twice
a branch that returns an outer value: =BRANCH | =return_outer_value | the graph output 'o' in
  the subgraph of node 'pick' (If) is a value of an outer graph; it needs an Identity
an initializer of another size: =CHAIN | =add(constant('w', [2], [3])) | initializer 'w' is
  declared [3], and holds [2]
an initializer of another rank: =CHAIN | =add(constant('w', [2], [2, 1])) | initializer 'w' is
  declared [2,1], and holds [2]
an initializer of another type: =CHAIN | =add(constant('w', [2], dtype=np.int64)) | initializer
  'w' is declared float, and holds int64
an initializer without a value: =CHAIN | =add(constant('w', [2]), empty=True) | initializer 'w'
  has no value
initializers of old models are inputs: =CHAIN | =add(constant('w', [2]), version=3)
  | initializer 'w' is not a graph input, as IR version 3 demands
""")
def test_a_fault_is_one_sentence(text, edit, sentence):
    broken = read(text)
    edit(broken)
    assert check_structure(broken) == [sentence]


def test_cycle_names_its_nodes():
    broken = read()
    named(broken, "first").replace_input_with(0, named(broken, "second").outputs[0])
    (sentence,) = check_structure(broken)
    assert all(word in sentence for word in ("cycle", "first", "second"))


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


@each_row("""body | sentence
1: [n] y = NoSuchOperator(x) | node 'n' (NoSuchOperator): No Op registered for NoSuchOperator
  with domain_version of 20
2: [n] y = Relu <alpha = 1> (x) | node 'n' (Relu): Unrecognized attribute: alpha for operator
  Relu
3: y = Add(x) | the Add node that computes 'y': under schema ::Add:14 it has input size 1 not
  in range [min=2, max=2]
""")
def test_asks_the_checker_for_what_operators_demand(body, sentence):
    text = f"main (float[2] x) => (float[2] y) {{ {body} }}"
    assert check_structure(read(text)) == [sentence]


def test_full_infers_types_and_shapes():
    text = "main (float[2] x, int64[2] k) => (float[2] y) { a = Add(x, k) [n] y = Neg(a) }"
    assert check_structure(read(text)) == []
    (sentence,) = check_structure(read(text), full=True)
    assert sentence.startswith("the Add node that computes 'a': ")
    assert "int64" in sentence


def test_a_broken_model_does_not_flood_the_report():
    broken = read()
    first = named(broken, "first")
    for index in range(MOST + 5):
        broken.graph.append(ir.node("Neg", [ir.Value(name=f"ghost{index}")], name=f"n{index}"))
    assert first.graph is broken.graph
    found = check_structure(broken)
    assert len(found) == MOST + 5
    (told,) = first_few(found)
    assert told == f"{found[0]}, and {MOST + 4} more like it"
    kinds = first_few([f"fault {'x' * k}" for k in range(MOST + 5)])
    assert len(kinds) == MOST + 1
    assert kinds[-1] == "5 more kinds of faults"


def test_large_weights_are_neither_written_nor_changed(monkeypatch):
    sound = read("main (float[2] x) => (float[2] y) { y = Add(x, w) }")
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


MODEL = """(float[N, 4] x) => (float[N, 4] y) {{ {a} a = Exp(x) y = Neg(a) }}"""
SAMPLES = [
    {"x": np.ones((n, 4), np.float32), "a": np.ones((n, 4), np.float32)} for n in (2, 3)
]


def noted(type_, shape):
    model = parse(MODEL.format(a=""))
    value = model.graph[0].outputs[0]
    value.type = ir.TensorType(type_)
    value.shape = ir.Shape(shape)
    return model


def wrong(type_, shape, samples=SAMPLES):
    return find_wrong_annotations(parse(MODEL.format(a="")), noted(type_, shape), samples)


@each_of("shape", ["N", 4], [None, 4], ["other", 4], [None, None], ids=str)
def test_what_every_sample_shows_is_right(shape):
    assert wrong(ir.DataType.FLOAT, shape) == []


@each_of(
    "shape, told",
    ([2, 4], "a is noted to have shape [2, 4], and has [3, 4]"),
    (["N", 5], "a is noted to have shape [N, 5], and has [2, 4]"),
    ([None, "N"], "and has [2, 4]"),
    (["N"], "a is noted to have shape [N], and has [2, 4]"),
    ids=str,
)
def test_a_shape_that_a_sample_contradicts_is_told(shape, told):
    assert any(told in one for one in wrong(ir.DataType.FLOAT, shape))


def test_a_wrong_type_is_told():
    (found,) = wrong(ir.DataType.INT32, ["N", 4])
    assert found == "a is noted to be INT32, and is FLOAT"


def test_what_was_noted_before_is_not_charged_to_the_pass():
    model = noted(ir.DataType.FLOAT, [7, 7])
    assert find_wrong_annotations(model, noted(ir.DataType.FLOAT, [7, 7]), SAMPLES) == []


def test_a_value_that_was_not_recorded_is_not_judged():
    assert wrong(ir.DataType.FLOAT, [9, 9], [{"x": SAMPLES[0]["x"]}]) == []


@each_of("behind", 1, 70)
def test_what_the_engine_computes_against_the_standard_is_not_charged_to_the_pass(behind):
    text = """<ir_version: 10, opset_import: ["" : 20]>
        g (float[2,N,K] x, bool b) => (float[?,?] y) <int64[1] a = {-1}> {
          m = If (b) <then_branch = t () => (float[?,?,?] u) { u = Relu(x) },
                      else_branch = e () => (float[?,?,?] v) { v = Neg(x) }>
          r = ReduceL1<keepdims = 0>(m, a) y = Abs(r) }"""
    signs = " ".join(f"s{k + 1} = Neg(s{k})" for k in range(behind))
    text = text.replace("y = Abs(r)", f"s0 = Abs(r) {signs} y = Abs(s{behind})")
    feeds = [{"x": np.zeros((2, 4, n), np.float32), "b": np.array(True)} for n in (3, 0)]
    config = default_config(["reproducers=false"], ["shape-inference"])
    done = run_pipeline(
        ir.from_onnx_text(text), config, reference=ReferenceData(feeds, None, "test")
    )
    assert done.error is None


def test_a_shape_noted_behind_what_the_engine_computes_against_the_standard_is_not_charged():
    text = """<ir_version: 10, opset_import: ["" : 17]>
        g (float[N,3] x, bool b, float d) => (float[N,3] y) <float d = {-1}, int64[0] a = {}> {
          s = Squeeze(x, a)
          r = If (b) <then_branch = t () => (float[N,3] u) { u = Pow(s, d) },
                      else_branch = e () => (float[N,3] v) { v = Identity(s) }>
          y = Neg(r) }"""
    feeds = [
        {"x": np.ones((n, 3), np.float32), "b": np.array(b)}
        for n, b in ((2, True), (1, False))
    ]
    done = run_pipeline(
        ir.from_onnx_text(text),
        default_config(["reproducers=false"], ["shape-inference"]),
        reference=ReferenceData(feeds, None, "test"),
    )
    assert done.error is None, "the engine squeezes one row without being asked"


def test_a_shape_that_the_standard_contradicts_too_is_told_where_others_are_odd():
    text = """<ir_version: 10, opset_import: ["" : 17]>
        g (float[N,3] x) => (float[?,?] y) <int64[0] a = {}> {
          e = Exp(x) s = Squeeze(x, a) n = Neg(s) y = Abs(n) }"""
    before, after = ir.from_onnx_text(text), ir.from_onnx_text(text)
    for node, rank in zip(after.graph, (3, 2, 2, 2), strict=True):
        node.outputs[0].shape = ir.Shape([None] * rank)
    one = np.ones((1, 3), np.float32)
    values = {"x": one, "e": one, "s": one[0], "n": one[0], "y": one[0]}
    found = find_wrong_annotations(
        before, after, [values], lambda node, row: {node.outputs[0].name: one}
    )
    assert found == ["e is noted to have shape [None, None, None], and has [1, 3]"]


@each_of(
    "text",
    """(float[N, 3] x) => (float[K, N, 3] y) {
            s = ReduceSum<keepdims = 0>(x) k = Constant<value = float {1e30}>()
            go = Greater(s, k) m = Constant<value = int64 {4}>()
            f, st = Loop(m, go, x) <body = b (int64 i, bool c, float[N, 3] v)
                => (bool d, float[N, 3] w, float[N, 3] z) {
                d = Identity(c) w = Neg(v) z = Abs(v) }>
            t = Relu(st) y = Neg(t) }""",
    """(float[N, 3] x) => (float[a, b, c] y) <float[N, 3] u> {
            k = Constant<value_ints = [1]>() u = Unsqueeze(x, k) t = Relu(u) y = Neg(t) }""",
)
def test_what_follows_from_a_wrong_note_or_a_loop_that_is_not_entered_is_no_fault(text):
    model = ir.from_onnx_text(f'<ir_version: 10, opset_import: ["" : 20]> g {text}')
    done = run_pipeline(model, default_config(["reproducers=false"], ["shape-inference"]))
    assert done.error is None


def test_dimensions_whose_names_are_empty_are_not_one():
    model = noted(ir.DataType.FLOAT, ["", 4])
    model.graph.inputs[0].shape = ir.Shape([ir.SymbolicDim(""), ir.SymbolicDim("")])
    assert find_wrong_annotations(parse(MODEL.format(a="")), model, SAMPLES) == []
