"""What is said of bodies of If and Loop that no sample enters."""

import onnx_ir as ir

from onnx_passes import run
from onnx_passes.verify.evidence import Kind
from tests.tables import each_of, edit_pass

HEAD = '<ir_version: 10, opset_import: ["" : 20, "l" : 1]> g '
SEEN = """m = ReduceMax<keepdims = 0>(x) k = Constant<value_float = 1000000.0>()
    c = Less(m, k) e = Exp(x)"""
THEN = "then_branch = t () => (float[N, 4] o) { o = Neg(x) }"
ELSE = "else_branch = s () => (float[N, 4] b) { b = Abs(x) }"
IF = f"If(c) <{THEN}, {ELSE}>"
TEXT = f"(float[N, 4] x) => (float[N, 4] y) {{ {SEEN} y = {IF} }}"
BEHIND = TEXT.replace(f"y = {IF}", f"q = {IF} y = Sin(q)")
NESTED = TEXT.replace(
    "{ b = Abs(x) }",
    f"{{ b = {IF.replace('() => (float[N, 4] b)', '() => (float[N, 4] i)')} }}",
).replace("{ b = Abs(x) }", "{ i = Abs(x) }")
TWO = BEHIND.replace("y = Sin(q)", f"r = {IF} y = Add(q, r)")
LOOP = f"""(float[N, 4] x) => (float[N, 4] y) {{ {SEEN}
    n = Constant<value = int64 {{1}}>() i = Cast<to = 7>(c) z = Sub(n, i)
    go = Constant<value = bool {{1}}>()
    r = Loop(z, go, x) <body = d (int64 i0, bool ci, float[N, 4] s)
        => (bool co, float[N, 4] u) {{ co = Identity(ci) u = Abs(s) }}> y = Sin(r) }}"""
FUNCTION = """(float[N, 4] x) => (float[N, 4] y) { y = l.f(x) }
    <domain: "l", opset_import: ["" : 20]> f (x) => (y) {""" + (
    f"{SEEN} y = {IF} }}".replace("float[N, 4] ", "")
)
RENAMED = ("b = Abs", "bb = Relu"), ("4] b)", "4] bb)")
ANEW = ("q = ", "q2 = "), ("Sin(q)", "Sin(q2)")
WRONG = {
    "same name": (TEXT, ("Abs", "Relu")),
    "new name": (TEXT, *RENAMED),
    "then": (
        TEXT.replace("c = Less(m, k)", "c = Less(k, m)"),
        ("o = Neg", "oo = Relu"),
        ("4] o)", "4] oo)"),
    ),
    "rebuilt": (BEHIND, *ANEW, ("Abs", "Relu")),
    "rebuilt, new name": (BEHIND, *ANEW, *RENAMED),
    "around": (
        BEHIND.replace("Abs(x)", "Abs(e)"),
        ("e = Exp", "e2 = Exp"),
        ("Abs(e)", "Sin(e2)"),
    ),
    "nested": (NESTED, ("i = Abs", "ii = Relu"), ("4] i)", "4] ii)")),
    "loop": (LOOP, ("u = Abs(s)", "uu = Relu(s2)"), ("] u)", "] uu)"), ("] s)", "] s2)")),
    "loop rebuilt": (LOOP, ("r = Loop", "r2 = Loop"), ("Sin(r)", "Sin(r2)"), ("Abs", "Relu")),
    "function": (FUNCTION, ("b = Abs", "bb = Relu"), ("=> (b)", "=> (bb)")),
    "no If": (TEXT, (IF, "Neg(x)")),
    "Where": (TEXT, (f"y = {IF}", "o = Neg(x) b = Relu(x) y = Where(c, o, b)")),
}
TAKEN = TEXT.replace(
    f"y = {IF}",
    "k1 = Constant<value = bool {1}>() y = If(k1) <then_branch = outer () => (float[N, 4] v) "
    f"{{ v = {IF} }}, else_branch = never () => (float[N, 4] f) {{ f = Sin(x) }}>",
)
GIVEN = f"(float[N, 4] x, bool c) => (float[N, 4] y) {{ q = {IF} y = Sin(q) }}"
TANH = GIVEN.replace("o = Neg(x)", "o1 = Neg(x) o = Tanh(o1)").replace(
    "b = Abs(x)", "b1 = Abs(x) b = Tanh(b1)"
)
NEVER = LOOP.replace("z = Sub(n, i)", "z = Constant<value = int64 {0}>()")
STATES = f"""(float[N, 4] x) => (float[N, 4] y) {{ {SEEN}
    n = Constant<value = int64 {{3}}>() go = Constant<value = bool {{1}}>()
    r, t = Loop(n, go, x, e) <body = d (int64 i0, bool ci, float[N, 4] s, float[N, 4] w)
        => (bool co, float[N, 4] u, float[N, 4] v) {{
        co = Identity(ci) u = Sin(w) v = Add(s, w) }}> y = Sub(r, t) }}"""
RIGHT = {
    "what both branches do last is behind them, under its old name": (
        TANH,
        ("o1 = Neg(x) o = Tanh(o1)", "o = Neg(x)"),
        ("b1 = Abs(x) b = Tanh(b1)", "b = Abs(x)"),
        ("y = Sin(q)", "t = Tanh(q) y = Sin(t)"),
    ),
    "loop that is never entered": (
        NEVER,
        (NEVER[NEVER.index("r = Loop") : NEVER.index(" y =")], "r = Identity(x)"),
    ),
    "states in another order": (
        STATES,
        ("go, x, e)", "go, e, x)"),
        ("float[N, 4] s, float[N, 4] w", "float[N, 4] w, float[N, 4] s"),
        ("float[N, 4] u, float[N, 4] v", "float[N, 4] v, float[N, 4] u"),
        ("Sub(r, t)", "Sub(t, r)"),
    ),
    "If inside of one that is always taken": (
        TAKEN,
        (TAKEN[TAKEN.index("y = If") : TAKEN.rindex("}")], f"y = {IF}"),
    ),
    "new name": (TEXT, ("b = Abs(x)", "n = Neg(x) bb = Max(n, x)"), ("4] b)", "4] bb)")),
    "rebuilt": (BEHIND, *ANEW, ("b = Abs(x)", "n = Neg(x) b = Max(n, x)")),
    "Where": (TEXT, (f"y = {IF}", "o = Neg(x) b = Abs(x) y = Where(c, o, b)")),
    "branches exchanged": (
        TEXT,
        ("y = If(c)", "nc = Not(c) y = If(nc)"),
        ("then_branch", "other"),
        ("else_branch", "then_branch"),
        ("other", "else_branch"),
    ),
}

_BY: list[str] = []


@edit_pass()
def bodies_replace(model):
    """Put the nodes of another model in place of those that there are."""
    other = ir.from_onnx_text(_BY[-1])
    results, nodes = list(other.graph.outputs), list(other.graph)
    other.graph.outputs.clear()
    other.graph.remove(nodes)
    model.graph.outputs.clear()
    model.graph.remove(list(model.graph))
    for old, new in zip(other.graph.inputs, model.graph.inputs, strict=True):
        old.replace_all_uses_with(new)
    model.graph.extend(nodes)
    model.graph.outputs.extend(results)
    model.functions.update(other.functions)


def change(text, *pairs):
    other = text
    for old, new in pairs:
        assert old in other
        other = other.replace(old, new)
    model = ir.to_proto(ir.from_onnx_text(HEAD + text))
    _BY.append(HEAD + other)
    return run(model, [bodies_replace])


@each_of("name", *WRONG)
def test_a_wrong_body_that_no_sample_enters_is_never_verified(name):
    found = change(*WRONG[name])
    assert found.verdict in ("FAILED", "NOT VERIFIED", "PARTLY VERIFIED")
    (done,) = found.report.passes
    assert Kind.EXECUTED not in {one.kind for one in done.evidence}


def test_a_branch_that_would_take_all_memory_is_not_run():
    large = """n = Constant<value_ints = [281474976710656]>() k2 = ConstantOfShape(n)
        r = ReduceSum<keepdims = 0>(k2) b = Add(x, r)"""
    found = change(TEXT.replace("b = Abs(x)", large), ("b = Add(x, r)", "b = Sub(x, r)"))
    assert found.verdict in ("NOT VERIFIED", "PARTLY VERIFIED")


@each_of("name", *RIGHT)
def test_a_right_one_is(name):
    assert change(*RIGHT[name]).verdict == "VERIFIED"
