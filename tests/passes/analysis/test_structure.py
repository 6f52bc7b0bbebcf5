import onnx_ir as ir
import pytest

from onnx_passes.errors import ModelError
from onnx_passes.passes.analysis._structure import dominators
from onnx_passes.passes.analysis.structure import form_of
from onnx_passes.testing import parse

DIAMOND = """(float[8] x) => (float[8] y)
{ [a] p = Exp(x) [b] q = Neg(p) [c] r = Abs(p) [d] s = Add(q, r) [e] y = Sqrt(s) }"""


def test_dominators_of_a_diamond():
    graph = parse(DIAMOND).graph
    nearest = {n.name: m.name if m else None for n, m in dominators(graph).items()}
    assert nearest == {"a": None, "b": "a", "c": "a", "d": "a", "e": "d"}


def test_two_ways_from_the_inputs_share_no_node():
    model = parse("(float[8] x) => (float[8] y) { a = Exp(x) b = Neg(x) [j] y = Add(a, b) }")
    assert form_of(model).bottlenecks == ("Add 'j'",)


def test_constants_are_neither_data_nor_a_tie():
    model = parse("""(float[2] x, float[2] z) => (float[2] y, float[2] w) <float[2] k = {1, 2}>
        { c = Constant <value_floats = [1.0, 2.0]> ()
          [one] y = Add(x, k) [t] u = Mul(k, c) [two] w = Mul(z, u) }""")
    assert form_of(model).parts == (2, 1)
    one = parse(
        "(float[2] x) => (float[2] y) <float[2] k = {1, 2}> { [n] t = Neg(k) y = Add(x, t) }"
    )
    assert len(form_of(one).bottlenecks) == 1


def test_what_a_body_captures_is_data():
    model = parse("""(bool c, float[8] x) => (float[8] y) { [a] p = Exp(x) [b] d = Neg(p) y =
        If(c) < then_branch = t () => (float[8] q) { q = Abs(p) },
        else_branch = e () => (float[8] r) { r = Abs(d) }> }""")
    assert form_of(model).depth == 3


def test_a_cycle_is_found_and_named():
    model = parse(DIAMOND)
    first, last = model.graph[0], model.graph[4]
    first.replace_input_with(0, last.outputs[0])
    found = form_of(model)
    assert not found.acyclic
    assert "cycle through" in (found.cycle or "")
    assert (found.depth, found.bottlenecks) == (None, ())


def test_isomorphic_to_a_file(tmp_path):
    path = tmp_path / "m.onnx"
    ir.save(parse(DIAMOND.replace("p", "other").replace("Exother", "Exp")), path)
    assert form_of(parse(DIAMOND), str(path)).isomorphic
    assert form_of(parse(DIAMOND.replace("Neg", "Abs")), str(path)).isomorphic is False
    with pytest.raises(ModelError):
        form_of(parse(DIAMOND), str(tmp_path / "missing.onnx"))
