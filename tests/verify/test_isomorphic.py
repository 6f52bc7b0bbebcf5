"""Whether two models compute the same by the same nodes, whatever things are called."""

import onnx_ir as ir
import pytest

from onnx_passes.verify.isomorphic import compute_alike

HEAD = '<ir_version: 10, opset_import: ["" : 20]> g '
BASE = (
    "(float[N, 4] x, bool c) => (float[N, 4] y) <float[4] w = {1, 2, 3, 4}> "
    "{ a = Exp(x) b = Mul(a, w) d = Sub(b, a) y = Neg(d) }"
)
LOOP = """(float[N] x, bool c) => (float[N] y) {
    k = Exp(x)
    y = If(c) <
        then_branch = t () => (float[N] o) { m = Abs(k) o = Sub(m, x) },
        else_branch = e () => (float[N] p) { p = Neg(k) }
    >
}"""


def alike(before, after):
    return compute_alike(ir.from_onnx_text(HEAD + before), ir.from_onnx_text(HEAD + after))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("a = Exp(x) b = Mul(a, w) d = Sub(b, a)", "q = Exp(x) r = Mul(q, w) d = Sub(r, q)"),
        ("y = Neg(d)", "y = Neg(d) unused = Abs(d)"),
        (
            "<float[4] w = {1, 2, 3, 4}> { a",
            "{ w = Constant<value = float[4] {1, 2, 3, 4}>() a",
        ),
    ],
    ids=["same", "other names", "a node that nothing reads", "a constant stored elsewhere"],
)
def test_names_and_storage_do_not_matter(old, new):
    assert old in BASE
    assert alike(BASE, BASE.replace(old, new) if old else BASE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Sub(b, a)", "Sub(a, b)"),
        ("Exp(x)", "Sin(x)"),
        ("3, 4}", "3, 5}"),
        ("Mul(a, w)", "Mul(a, x)"),
        ("Sub(b, a)", "Sub(b, x)"),
        ("b = Mul(a, w)", "e = Exp(x) b = Mul(e, w)"),
        ("Exp(x)", "Identity(x)"),
        ("y = Neg(d)", "n = Neg(d) y = Identity(n)"),
    ],
)
def test_operands_operators_and_constants_do(old, new):
    assert old in BASE
    assert not alike(BASE, BASE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("m = Abs(k) o = Sub(m, x)", "n = Abs(k) o = Sub(n, x)", True),
        ("Sub(m, x)", "Sub(x, m)", False),
        ("Sub(m, x)", "Sub(m, k)", False),
        ("p = Neg(k)", "p = Neg(x)", False),
        ("p = Neg(k)", "p = Abs(k)", False),
    ],
)
def test_bodies_are_walked_too(old, new, expected):
    assert old in LOOP
    assert alike(LOOP, LOOP.replace(old, new)) is expected


@pytest.mark.parametrize(
    ("attribute", "expected"), [("axis = 1", True), ("axis = 0", False)], ids=["same", "other"]
)
def test_attributes_are_compared(attribute, expected):
    body = "(float[2, 2] x) => (float[2, 2] y) {{ y = Softmax<{}>(x) }}"
    assert alike(body.format("axis = 1"), body.format(attribute)) is expected


@pytest.mark.parametrize(
    ("operator", "expected"), [("Exp", True), ("RandomNormalLike", False)]
)
def test_equal_nodes_may_be_one_unless_they_draw_numbers(operator, expected):
    body = (
        f"(float[N] x) => (float[N] y) {{ a = {operator}(x) b = {operator}(x) y = Sub(a, b) }}"
    )
    merged = f"(float[N] x) => (float[N] y) {{ a = {operator}(x) y = Sub(a, a) }}"
    assert alike(body, merged) is expected
    assert alike(body, body)


def test_two_outputs_of_one_node_are_not_exchanged():
    body = "(float[4] x) => (float[2] {}) {{ p, q = Split<num_outputs = 2>(x) }}"
    assert not alike(body.format("p, float[2] q"), body.format("q, float[2] p"))


FUNCTIONS = """(float[N] x) => (float[N] y) {{ y = my.f<alpha = 1.0>(x) }}
<domain: "my", opset_import: ["" : 20]> f <alpha> (a) => (b) {{ {} }}"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("c = Exp(a) b = Neg(c)", True),
        ("d = Exp(a) b = Neg(d)", True),
        ("c = Sin(a) b = Neg(c)", False),
        ("c = Exp(a) b = Neg(a)", False),
    ],
)
def test_bodies_of_functions_are_compared(body, expected):
    head = '<ir_version: 10, opset_import: ["" : 20, "my" : 1]> g '
    old, new = (
        ir.from_onnx_text(head + FUNCTIONS.format(b)) for b in ("c = Exp(a) b = Neg(c)", body)
    )
    assert compute_alike(old, new) is expected


def test_another_opset_is_another_model():
    other = HEAD.replace("20", "19") + BASE
    assert not compute_alike(ir.from_onnx_text(HEAD + BASE), ir.from_onnx_text(other))


def test_a_default_of_an_input_is_compared():
    old, new = (ir.from_onnx_text(HEAD + BASE) for _ in range(2))
    for model, number in ((old, 1.0), (new, 2.0)):
        model.graph.inputs[0].const_value = ir.tensor([[number] * 4], name="x")
    assert not compute_alike(old, new)
