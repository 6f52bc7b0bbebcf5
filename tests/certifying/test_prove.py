import numpy as np
import onnx_ir as ir
import pytest
from onnxscript.rewriter import RewriteRule

from onnx_passes.certifying import (
    Arithmetic,
    FloatMode,
    Outcome,
    prove_pair,
    prove_rule,
)
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import ModelError
from tests.tables import cases

pytest.importorskip("z3")

X = ("float[2,3] x", "float[2,3] o")
XYZ = ("float[2,3] x, float[2,3] y, float[2,3] z", "float[2,3] o")
INT = ("int32[2,3] x", "int32[2,3] o")
ALL = "all ranks and sizes"
CLIPS = """l = Constant<value_float=0.0>() h = Constant<value_float=1.0>()
    m = Constant<value_float=2.0>() k = Constant<value_float=3.0>()
    a = Clip(x, l, h) o = Clip(a, m, k)"""

EQUAL = {
    case.id: case.values
    for case in cases("""
nested relus: =X | a = Relu(x) o = Relu(a) | o = Relu(x)
nested clips: =X | =CLIPS | l = Constant<value_float=2.0>() h = Constant<value_float=2.0>() o =
  Clip(x, l, h)
plus zero, whose sign is lost: =X | l = Constant<value_float=0.0>() o = Add(x, l) | o =
  Identity(x)
division by a power of two: =X | l = Constant<value_float=2.0>() o = Div(x, l) | l =
  Constant<value_float=0.5>() o = Mul(x, l)
distribution modulo 2^32: =('int32[2,3] x, int32[2,3] y, int32[2,3] z', 'int32[2,3] o') | a =
  Mul(x, y) b = Mul(x, z) o = Add(a, b) | a = Add(y, z) o = Mul(x, a)
de Morgan: =('bool[3] x, bool[2,3] y', 'bool[2,3] o') | a = Not(x) b = Not(y) o = And(a, b) | a
  = Or(x, y) o = Not(a)
shifts are multiplications: =('uint8[3] x', 'uint8[3] o') | t = Constant<value = uint8 {2}>() o
  = BitShift<direction="LEFT">(x, t) | t = Constant<value = uint8 {4}>() o = Mul(x, t)
two transposes: =X | a = Transpose<perm=[1,0]>(x) o = Transpose<perm=[1,0]>(a) | o =
  Identity(x)
a product transposed: =('float[2,3] x, float[3,4] y', 'float[4,2] o') | a = MatMul(x, y) o =
  Transpose<perm=[1,0]>(a) | a = Transpose<perm=[1,0]>(x) b = Transpose<perm=[1,0]>(y) o =
  MatMul(b, a)
gather of a range: =('float[4,3] x', 'float[2,3] o') | i = Constant<value_ints=[2,3]>() o =
  Gather(x, i) | s = Constant<value_ints=[2]>() e = Constant<value_ints=[4]>() o = Slice(x, s,
  e)
""")
}


@pytest.mark.parametrize("name", EQUAL)
def test_what_holds_bit_for_bit_earns_equality(graph, name):
    signature, before, after = EQUAL[name]
    proof = prove_pair(graph(*signature, before), graph(*signature, after))
    assert proof.outcome == Outcome.PROVED, proof.judgements
    assert proof.contract == Equality()


CLOSE = {
    case.id: case.values
    for case in cases("""
distribution: =XYZ | a = Mul(x, y) b = Mul(x, z) o = Add(a, b) | a = Add(y, z) o = Mul(x, a)
product of powers: =('float[3] x, float[3] y', 'float[3] o') | a = Exp(x) b = Exp(y) o = Mul(a,
  b) | a = Add(x, y) o = Exp(a)
square of a root: =X | a = Sqrt(x) o = Mul(a, a) | o = Identity(x)
through half precision: =X | a = Cast<to=10>(x) o = Cast<to=1>(a) | o = Identity(x)
a rounded reciprocal: =X | l = Constant<value_float=3.0>() o = Div(x, l) | l =
  Constant<value_float=0.333333343>() o = Mul(x, l)
sigmoid spelled out: =X | a = Sigmoid(x) o = Mul(x, a) | a = Neg(x) b = Exp(a) one =
  Constant<value_float=1.0>() c = Add(one, b) o = Div(x, c)
bias inside a convolution: =('float[1,2,4,4] x, float[3,2,3,3] w, float[3] b', 'float[1,3,4,4]
  o') | c = Conv<pads=[1,1,1,1]>(x, w) s = Constant<value_ints=[1,2]>() r = Unsqueeze(b, s) o =
  Add(c, r) | o = Conv<pads=[1,1,1,1]>(x, w, b)
""")
}


@pytest.mark.parametrize("name", CLOSE)
def test_what_holds_over_the_reals_only_earns_a_tolerance(graph, name):
    signature, before, after = CLOSE[name]
    proof = prove_pair(graph(*signature, before), graph(*signature, after))
    assert proof[Arithmetic.REAL].outcome == Outcome.PROVED, proof[Arithmetic.REAL]
    assert proof[Arithmetic.IEEE].outcome != Outcome.PROVED
    assert proof.contract == Tolerance()


WRONG = {
    case.id: case.values
    for case in cases("""
clips of disjoint ranges: =X | =CLIPS | l = Constant<value_float=2.0>() h =
  Constant<value_float=1.0>() o = Clip(x, l, h)
doubling overflows: =INT | t = Constant<value = int32 {2}>() a = Mul(x, t) o = Div(a, t) | o =
  Identity(x)
a branch that guards a division: =X | z = Constant<value_float=0.0>() f =
  Constant<value_float=5.0>() c = Equal(x, z) r = Reciprocal(x) o = Where(c, f, r) | o =
  Reciprocal(x)
a shape that shrinks: =('float[2,3] x, float[3] y', 'float[2,3] o') | a = Sub(x, x) o = Add(a,
  y) | o = Identity(y)
an addend moved out of a padded convolution: =('float[1,2,4,4] x, float[3,2,3,3] w',
  'float[1,3,4,4] o') | k = Constant<value_float=1.0>() y = Add(x, k) o =
  Conv<pads=[1,1,1,1]>(y, w) | c = Conv<pads=[1,1,1,1]>(x, w) a =
  Constant<value_ints=[1,2,3]>() s = ReduceSum<keepdims=0>(w, a) ax =
  Constant<value_ints=[1,2]>() r = Unsqueeze(s, ax) o = Add(c, r)
an axis mistaken: =('float[3,3] x', 'float[3] o') | a = Constant<value_ints=[0]>() o =
  ReduceSum<keepdims=0>(x, a) | a = Constant<value_ints=[1]>() o = ReduceSum<keepdims=0>(x, a)
an overflow of the engine's process: =INT | o = Identity(x) | m = Constant<value = int32
  {-1}>() a = Div(x, m) o = Neg(a)
""")
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_refuted_with_a_replay(graph, name):
    signature, before, after = WRONG[name]
    proof = prove_pair(graph(*signature, before), graph(*signature, after))
    assert proof.outcome == Outcome.REFUTED, proof.judgements
    found = proof.counterexample
    assert set(found.feeds) == {v.name for v in graph(*signature, before).graph.inputs}
    assert not found.actual or any(
        found.expected[n].shape != found.actual[n].shape
        or not np.array_equal(found.expected[n], found.actual[n])
        for n in found.expected
    )
    assert proof.contract is None


def test_many_elements_with_quotients_are_asked_one_by_one_where_all_at_once_take_minutes(
    graph,
):
    # z3 counts few steps for them, so that no limit of steps ended the query of all 48.
    signature = ("float[2,3,2,4] x", "float[2,3,2,4] o")
    before = "o = Softmax<axis = -1>(x)"
    after = """a = Constant<value_ints = [-1]>() m = ReduceMax(x, a) s = Sub(x, m) e = Exp(s)
        t = ReduceSum(e, a) o = Div(e, t)"""
    real = prove_pair(graph(*signature, before), graph(*signature, after))[Arithmetic.REAL]
    assert real.outcome == Outcome.PROVED, real.reason


def test_a_model_that_the_engine_does_not_show_leaves_the_rule_undecided(graph):
    before, after = "a = Neg(x) b = Cos(a) o = Neg(b)", "a = Cos(x) o = Neg(a)"
    signature = ("float[3] x", "float[3] o")
    real = prove_pair(graph(*signature, before), graph(*signature, after))[Arithmetic.REAL]
    assert real.outcome == Outcome.UNDECIDED
    assert "the engine sees no difference" in real.reason
    assert real.counterexample is None


def test_a_difference_at_infinity_alone_is_reported_with_the_finite_proof(graph):
    times_zero = "l = Constant<value_float=0.0>() o = Mul(x, l)"
    zero = "a = Abs(x) b = Sign(a) l = Constant<value_float=0.0>() o = Mul(b, l)"
    ieee = prove_pair(graph(*X, times_zero), graph(*X, zero))[Arithmetic.IEEE]
    assert (ieee.outcome, ieee.mode) == (Outcome.PROVED, FloatMode.FINITE)
    assert "not for all values" in ieee.reason


def test_equality_is_not_earned_by_finite_values_alone(graph):
    times_zero = "l = Constant<value_float=0.0>() o = Mul(x, l)"
    zero = "a = Abs(x) b = Sign(a) l = Constant<value_float=0.0>() o = Mul(b, l)"
    assert prove_pair(graph(*X, times_zero), graph(*X, zero)).contract == Tolerance()


def test_a_pointwise_proof_covers_every_rank(graph):
    proof = prove_pair(graph(*X, "a = Relu(x) o = Relu(a)"), graph(*X, "o = Relu(x)"))
    for arithmetic in (Arithmetic.REAL, Arithmetic.IEEE):
        coverage = proof[arithmetic].coverage
        assert coverage.everywhere
        assert coverage.text == ALL


def test_models_of_different_interfaces_are_refused(graph):
    with pytest.raises(ModelError, match="inputs that the original lacks: y"):
        prove_pair(
            graph(*X, "o = Relu(x)"),
            graph("float[2,3] x, float[2,3] y", "float[2,3] o", "o = Add(x, y)"),
        )


def test_an_initializer_that_is_an_input_too_is_no_constant(graph):
    before = graph("float[3] x, float[3] s", "float[3] o", "o = Mul(x, s)")
    scale = next(v for v in before.graph.inputs if v.name == "s")
    scale.const_value = ir.tensor(np.ones(3, np.float32))
    before.graph.register_initializer(scale)
    after = graph("float[3] x, float[3] s", "float[3] o", "o = Identity(x)")
    assert prove_pair(before, after).outcome == Outcome.REFUTED


def relu_of_relu():
    return RewriteRule(lambda op, x: op.Relu(op.Relu(x)), lambda op, x: op.Relu(x))


def test_a_rule_is_proved_on_templates_of_its_own():
    proof = prove_rule(relu_of_relu())
    assert proof.outcome == Outcome.PROVED
    assert proof.templates > 1
    assert proof[Arithmetic.INT].outcome == Outcome.PROVED


def test_a_rule_that_fires_nowhere_is_undecided(graph):
    proof = prove_rule(relu_of_relu(), [graph(*X, "o = Abs(x)")])
    assert proof.outcome == Outcome.UNDECIDED
    assert proof.templates == 0
    assert "fired on no template" in proof[Arithmetic.REAL].reason


def test_the_guard_of_a_rule_is_run():
    def only_zero(context, x, c):
        return c.const_value is not None and not c.const_value.numpy().any()

    def drop(op, x, c):
        return op.Identity(x)

    guarded = RewriteRule(lambda op, x, c: op.Sub(x, c), drop, only_zero)
    unguarded = RewriteRule(lambda op, x, c: op.Sub(x, c), drop)
    assert prove_rule(unguarded).outcome == Outcome.REFUTED
    # The guard looks at numbers and not at the shape, which the constant may enlarge.
    refuted = prove_rule(guarded)
    assert refuted.outcome == Outcome.REFUTED
    assert "shape" in refuted.counterexample.reason


def test_a_graph_that_is_defined_nowhere_proves_nothing(graph):
    one = "one = Constant<value_float=1.0>()"
    never = f"a = Mul(x, x) {one} b = Add(a, one) c = Neg(b) o = Sqrt(c)"
    real = prove_pair(graph(*X, never), graph(*X, "o = Sin(x)"))[Arithmetic.REAL]
    assert real.outcome == Outcome.UNDECIDED
    assert "defined for no input" in real.reason
    # What both sides compute is one unknown: that none fits it proves no distance, either.
    shared = [
        f"{never.removesuffix(' o = Sqrt(c)')} s = Sqrt(c) o = {last}"
        for last in ("Add(s, a)", "Sub(s, a)")
    ]
    near = prove_pair(*(graph(*X, nodes) for nodes in shared))[Arithmetic.REAL]
    assert near.outcome == Outcome.UNDECIDED


@pytest.mark.parametrize(
    ("dtype", "outcome"), [("float16", Outcome.REFUTED), ("bfloat16", Outcome.UNDECIDED)]
)
def test_half_precision_is_replayed_in_itself_or_not_at_all(graph, dtype, outcome):
    # ONNX Runtime's CPU provider has no Neg of bfloat16: nothing is replayed in another type.
    signature = (f"{dtype}[3] x", f"{dtype}[3] o")
    right = prove_pair(
        graph(*signature, "a = Neg(x) o = Neg(a)"), graph(*signature, "o = Identity(x)")
    )
    assert right.contract == Equality()
    wrong = prove_pair(graph(*signature, "o = Neg(x)"), graph(*signature, "o = Identity(x)"))
    assert wrong.outcome == outcome


def test_functions_count_for_their_bodies():
    text = """<ir_version: 10, opset_import: ["" : 18, "own" : 1]>
        g (float[3] x) => (float[3] o) {{ o = own.f(x) }}
        <domain: "own", opset_import: ["" : 18]> f (a) => (b) {{ b = {body} }}"""
    relu, absolute = (ir.from_onnx_text(text.format(body=b)) for b in ("Relu(a)", "Abs(a)"))
    assert prove_pair(relu, relu).outcome == Outcome.PROVED
    assert prove_pair(relu, absolute).outcome == Outcome.REFUTED


@pytest.mark.parametrize("shape", ["4", "3,4", "1,1"])
def test_a_tensor_of_one_number_is_that_number(shape, graph):
    # Taken for any tensor, ones could not be shown to change nothing.
    elements = ", ".join(["1"] * int(np.prod([int(d) for d in shape.split(",")])))
    given = f"c = Constant<value = float[{shape}] {{{elements}}}>()"
    before = graph("float[3,4] x", "float[3,4] o", f"{given} o = Mul(x, c)")
    proof = prove_pair(before, graph("float[3,4] x", "float[3,4] o", "o = Identity(x)"))
    assert proof.outcome == Outcome.PROVED
    assert proof.contract == Equality()
    real = proof[Arithmetic.REAL].coverage
    assert real.text == ALL
    assert any("c = 1.0" in condition for condition in real.conditions)
