import numpy as np
import onnx_ir as ir

from onnx_passes.model.diff import diff, explain_difference, structurally_equal
from tests.tables import cases, each_of

CHAIN = "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Add(x, w) y = Relu(a) }"
SAME = [
    "other (float[2] x) => (float[2] y) <float[2] v = {1, 2}> { b = Add(x, v) y = Relu(b) }",
    "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[2] unread = {0, 0}>"
    "{ a = Add(x, w) y = Relu(a) }",
    "g (float[2] x) => (float[2] y) <float[1] a> { w = Constant<value = float[2] {1, 2}>()"
    " [n] a = Add(x, w) [m] y = Relu(a) }",
    "g (float[2] x) => (float[2] y) { w = Constant<value_floats = [1.0, 2.0]>()"
    " a = Add(x, w) y = Relu(a) }",
]
DIFFERENT = cases("""
- g (float[2] x) => (float[2] y) <float[2] w = {1, 3}> { a = Add(x, w) y = Relu(a) } | 3.0
- g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Sub(x, w) y = Relu(a) } | Sub
- g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Add(w, x) y = Relu(a) } | Add(
- g (float[2] x) => (float[2] z) <float[2] w = {1, 2}> { a = Add(x, w) z = Relu(a) } | z
- g (float[N] x) => (float[2] y) <float[2] w = {1, 2}> { a = Add(x, w) y = Relu(a) } | [N]
- g (float[2] x) => (float[2] y) <float[2] w = {1, 2}>{ a = Add(x, w) y = Relu(a) q = Neg(a) }
  | Neg
""")


@each_of("text", *SAME)
def test_names_order_and_the_form_of_constants_make_no_difference(model, text):
    assert structurally_equal(model(text), model(CHAIN))
    assert explain_difference(model(text), model(CHAIN)) == ""


@each_of("text, shows", *DIFFERENT)
def test_differences_are_shown(model, text, shows):
    assert not structurally_equal(model(text), model(CHAIN))
    diff = explain_difference(model(text), model(CHAIN))
    added = [line for line in diff.splitlines() if line[0] == "+" and "+++" not in line]
    assert any(shows in line for line in added)
    assert diff.startswith("--- expected\n+++ actual")


def test_a_small_difference_in_a_large_model_is_a_short_diff(model):
    def chain(length):
        nodes = " ".join(f"a{i + 1} = Relu(a{i})" for i in range(length))
        return model(f"g (float[2] a0) => (float[2] y) {{ {nodes} y = Abs(a{length}) }}")

    assert len(explain_difference(chain(2001), chain(2000)).splitlines()) < 12
    many = model(
        "g (float[2] a) => (float[2] y) {" + "y = Sum(" + ", ".join(["a"] * 9) + ") }"
    )
    assert explain_difference(chain(500), many).splitlines()[-1].endswith("lines more")


def test_sharing_is_a_difference_that_is_said_in_words(model):
    shared = model("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}>"
                   "{ a = Add(x, w) y = Mul(a, w) }")  # fmt: skip
    twice = model("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[2] v = {1, 2}>"
                  "{ a = Add(x, w) y = Mul(a, v) }")  # fmt: skip
    assert not structurally_equal(shared, twice)
    assert "shares" in explain_difference(shared, twice)


def test_subgraphs_and_functions_are_compared_and_shown(model):
    def build(inner, outer="p", constant="c = Constant<value_float = 2.0>()"):
        return model(
            f"g (bool k, float x) => (float y) {{ {outer} = Neg(x) r = my.f({outer}) "
            "y = If(k) <"
            f"then_branch = t () => (float q) {{ q = {inner}({outer}) }},"
            "else_branch = e () => (float z) { z = Abs(r) }> }",
            f'<domain: "my", opset_import: ["": 20]> f (a) => (b)'
            f"{{ {constant} b = Mul(a, c) }}",
        )

    assert structurally_equal(build("Relu"), build("Relu", outer="renamed"))
    assert "+    abs1 = Abs(neg0)" in explain_difference(build("Abs"), build("Relu"))
    other = build("Relu", constant="c = Constant<value_float = 3.0>()")
    assert not structurally_equal(other, build("Relu"))
    assert "FLOAT[]{3.0}" in explain_difference(other, build("Relu"))
    lifted = build("Relu", constant="unused = Neg(a) c = Constant<value = float {2.0}>()")
    assert "Neg" in explain_difference(lifted, build("Relu"))


def test_large_weights_are_shown_as_a_hash(model):
    a, b = model(CHAIN), model(CHAIN)
    for number, m in enumerate((a, b)):
        w = m.graph.initializers["w"]
        w.const_value = ir.tensor(np.full(10**6, number, np.float32), name="w")
    diff = explain_difference(a, b)
    assert "FLOAT[1000000]#" in diff
    assert len(diff) < 1000


HEAD = '<ir_version: 10, opset_import: ["" : 20]> g (float[2] x, float[2] z) => (float[2] y) '
PLAIN = HEAD + (
    "<float[2] w = {1,2}> { a = Relu(x) b = Mul(a, w) c = Elu<alpha=2.0>(b) y = Add(c, z) }"
)


def model(text):
    return ir.from_onnx_text(text)


def kinds(a, b):
    return sorted(d.kind for d in diff(model(a), model(b)))


def test_renamed_models_do_not_differ():
    renamed = PLAIN.replace("a = ", "q = ").replace("(a", "(q").replace("w", "weight")
    assert kinds(PLAIN, renamed) == []


@each_of(
    "old, new, expected",
    ("alpha=2.0", "alpha=3.0", ["attribute"]),
    ("{1,2}>", "{1,4}>", ["weight"]),
    ("y = Add(c, z)", "y = Add(c, x)", ["wiring"]),
    ("y = Add(c, z)", "y = Add(c, c)", ["wiring"]),
    ('"" : 20', '"" : 21', ["opset"]),
    ("float[2] z", "float[1] z", ["interface"]),
)
def test_a_change_is_told_by_kind(old, new, expected):
    assert kinds(PLAIN, PLAIN.replace(old, new)) == expected


def test_an_inserted_node_is_the_only_one_added():
    longer = PLAIN.replace("c = Elu<alpha=2.0>(b)", "n = Abs(b) c = Elu<alpha=2.0>(n)")
    found = diff(model(PLAIN), model(longer))
    assert [str(d) for d in found if d.kind == "added"] == ["+ Abs(b) -> n"]
    assert not [d for d in found if d.kind == "removed"]
    assert [d.kind for d in diff(model(longer), model(PLAIN))].count("removed") == 1


def test_norms_of_a_changed_weight_are_told():
    (found,) = diff(model(PLAIN), model(PLAIN.replace("{1,2}>", "{1,4}>")))
    assert "L2 of the change 2, relative 0.894, largest 2" in found.after


def test_differences_in_subgraphs_are_found_and_renamed_outer_values_are_not():
    text = """<ir_version: 10, opset_import: ["" : 20]> g (bool p, float[2] x) => (float[2] y)
        { o = Abs(x) y = If(p) <then_branch = t () => (float[2] u) { u = Elu<alpha=2.0>(o) },
        else_branch = e () => (float[2] v) { v = Neg(x) }> }"""
    other = text.replace("2.0", "3.0").replace("o = ", "q = ").replace("(o)", "(q)")
    (found,) = diff(model(text), model(other))
    assert found.kind == "attribute"
    assert "then_branch" in found.where
