import pytest

from tests.tables import cases

HEAD = """(bool[N] a, bool[N] b) => (bool[N] y) <bool t = {1}, bool f = {0}> """
BITS = "(uint8[N] a, uint8[N] b) => (uint8[N] y) <uint8 t = {255}, uint8 f = {127}> "


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("c = Not(a) d = Not(b) y = And(c, d)", ["Or", "Not"]),
        ("c = Not(a) d = Not(b) y = Or(c, d)", ["And", "Not"]),
        ("c = Not(a) d = Not(b) y = Xor(c, d)", ["Xor"]),
        ("c = Not(a) y = Xor(b, c)", ["Xor", "Not"]),
        ("y = Xor(t, a)", ["Not"]),
    ],
)
def test_fires(body, kinds, rewrites):
    model = rewrites(HEAD + "{ " + body + " }")
    assert [node.op_type for node in model.graph] == kinds


@pytest.mark.parametrize(
    ("body", "kinds"),
    cases("""
- c = BitwiseNot(a) d = BitwiseNot(b) y = BitwiseOr(c, d) | =['BitwiseAnd', 'BitwiseNot']
- y = BitwiseXor(a, t) | =['BitwiseNot']
"""),
)
def test_fires_on_bits(body, kinds, rewrites):
    model = rewrites(BITS + "{ " + body + " }")
    assert [node.op_type for node in model.graph] == kinds


@pytest.mark.parametrize(
    "graph",
    [
        HEAD + "{ c = Not(a) d = Not(b) e = And(c, d) y = Or(e, c) }",
        HEAD + "{ y = Xor(a, f) }",
        BITS + "{ y = BitwiseXor(a, f) }",
    ],
)
def test_leaves_alone(graph, leaves_alone):
    leaves_alone(graph)
