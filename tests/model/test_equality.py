import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.model.equality import explain_difference, structurally_equal

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
DIFFERENT = [
    (
        "g (float[2] x) => (float[2] y) <float[2] w = {1, 3}> { a = Add(x, w) y = Relu(a) }",
        "3.0",
    ),
    (
        "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Sub(x, w) y = Relu(a) }",
        "Sub",
    ),
    (
        "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Add(w, x) y = Relu(a) }",
        "Add(",
    ),
    (
        "g (float[2] x) => (float[2] z) <float[2] w = {1, 2}> { a = Add(x, w) z = Relu(a) }",
        "z",
    ),
    (
        "g (float[N] x) => (float[2] y) <float[2] w = {1, 2}> { a = Add(x, w) y = Relu(a) }",
        "[N]",
    ),
    (
        "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}>"
        "{ a = Add(x, w) y = Relu(a) q = Neg(a) }",
        "Neg",
    ),
]


@pytest.mark.parametrize("text", SAME)
def test_names_order_and_the_form_of_constants_make_no_difference(model, text):
    assert structurally_equal(model(text), model(CHAIN))
    assert explain_difference(model(text), model(CHAIN)) == ""


@pytest.mark.parametrize(("text", "shows"), DIFFERENT)
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


def test_models_are_not_changed(model):
    a, b = model(SAME[2]), model(CHAIN)
    before = ir.to_proto(a), ir.to_proto(b)
    explain_difference(a, b)
    structurally_equal(a, b)
    assert (ir.to_proto(a), ir.to_proto(b)) == before


def test_large_weights_are_shown_as_a_hash(model):
    a, b = model(CHAIN), model(CHAIN)
    for number, m in enumerate((a, b)):
        w = m.graph.initializers["w"]
        w.const_value = ir.tensor(np.full(10**6, number, np.float32), name="w")
    diff = explain_difference(a, b)
    assert "FLOAT[1000000]#" in diff
    assert len(diff) < 1000
