import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.testing import parse
from onnx_passes.verify.well_formed import check_structure
from tests.tables import each_of


def names(values):
    return [str(value.name) for value in values]


def test_a_part_reads_and_gives_what_lies_around_it(diamond, parts_of):
    part = parts_of(diamond).part(frozenset({1, 3}))
    assert [node.op_type for node in part.graph] == ["Neg", "Add"]
    assert names(part.graph.inputs) == ["a", "c"]
    assert names(part.graph.outputs) == ["d"]
    assert check_structure(part) == []
    assert len(diamond.graph) == 6


def test_kept_inputs_leave_only_parts_that_begin_there(diamond, parts_of):
    parts = parts_of(diamond, keep_inputs=True)
    assert parts.grow({3}) == {0, 1, 2, 3}
    assert parts.trim({0, 1, 3, 4}) == {0, 1}


def test_kept_outputs_leave_only_parts_that_end_there(diamond, parts_of):
    parts = parts_of(diamond, keep_outputs=True)
    assert parts.grow({3}) == {3, 4, 5}
    assert parts.trim({0, 3, 4, 5}) == {3, 4, 5}


def test_a_default_of_an_input_stays_one(parts_of):
    model = parse("""<ir_version: 10, opset_import: ["" : 20]>
        main (float[2] x, float[2] w = {1.0, 2.0}) => (float[2] y) { y = Add(x, w) }""")
    part = parts_of(model).part(frozenset({0}))
    assert names(part.graph.inputs) == ["x", "w"]
    assert np.array_equal(part.graph.initializers["w"].const_value.numpy(), [1, 2])


def test_a_shape_that_is_computed_outside_becomes_a_constant(parts_of):
    model = parse("""(float[2,3] x) => (float[a,b] y)
        { s = Shape(x) r = Abs(x) y = Reshape(r, s) }""")
    part = parts_of(model).part(frozenset({2}))
    assert names(part.graph.inputs) == ["r"]
    assert np.array_equal(part.graph.initializers["s"].const_value.numpy(), [2, 3])


def test_what_a_subgraph_reads_is_an_input(parts_of):
    model = parse("""(bool c, float[2] x) => (float[2] y) {
            a = Abs(x)
            y = If (c) <then_branch = t () => (float[2] p) { p = Neg(a) },
                        else_branch = e () => (float[2] q) { q = Identity(a) }>
        }""")
    part = parts_of(model).part(frozenset({1}))
    assert names(part.graph.inputs) == ["c", "a"]
    assert check_structure(part) == []


def test_functions_that_are_not_called_are_left_out(parts_of):
    model = parse("""<ir_version: 10, opset_import: ["" : 20, "f" : 1]>
        main (float[2] x) => (float[2] y) { a = f.g(x) y = Abs(a) }
        <domain: "f", opset_import: ["" : 20]> g (p) => (q) { q = Neg(p) }""")
    parts = parts_of(model)
    assert len(parts.part(frozenset({0})).functions) == 1
    assert not parts.part(frozenset({1})).functions


SHAPE = """(float[2,3] x, float[3] w = {1.0, 2.0, 3.0}) => (float[a,b] y)
{ s = Shape(x) r = Add(x, w) k = Constant<value_int = 2>() t = Mul(s, k) y = Reshape(r, s) }"""


@each_of("kept", {0}, {1, 3}, {0, 1}, {0, 1, 2, 3}, {2, 3})
def test_a_part_is_a_valid_model(parts_of, kept):
    parts = parts_of(parse(SHAPE))
    proto = ir.to_proto(parts.part(frozenset(kept)))
    onnx.checker.check_model(proto, full_check=True)
