from tests.tables import each_of, pass_cases

BOOLS = "(bool[N] x) => (bool[N] y) <bool t = {1}, bool f = {0}> "
INTS = "(int8[N] x) => (int8[N] y) <int8 t = {127}, int8 f = {0}> "
COMPARED = "(int32[N] x) => (bool[N] y) "
FLOATS = "(float[N] x) => (float[N] y) <float f = {0}> "


@each_of(
    "graph, number",
    (BOOLS + "{ y = And(f, x) }", 0),
    (BOOLS + "{ y = Or(x, t) }", 1),
    (BOOLS + "{ n = Not(x) y = And(n, x) }", 0),
    (BOOLS + "{ n = Not(x) y = Or(x, n) }", 1),
    (BOOLS + "{ y = Xor(x, x) }", 0),
    (INTS + "{ y = Mul(x, f) }", 0),
    (INTS + "{ y = Max(x, t) }", 127),
    (INTS + "{ y = Sub(x, x) }", 0),
    (INTS + "{ n = BitwiseNot(x) y = BitwiseOr(n, x) }", -1),
    (COMPARED + "{ y = GreaterOrEqual(x, x) }", 1),
    ("(float[N] x) => (bool[N] y) { y = Less(x, x) }", 0),
)
def test_fires(graph, number, rewrites):
    model = rewrites(graph)
    assert [node.op_type for node in model.graph] == ["Constant", "Shape", "Expand"]
    assert model.graph[0].attributes["value"].as_tensor().numpy() == number


test_cases = pass_cases("""
=FLOATS + '{ y = Mul(x, f) }'
=FLOATS + '{ y = Sub(x, x) }'
(float[N] x) => (bool[N] y) { y = Equal(x, x) }
=BOOLS + '{ y = And(x, t) }'
(bool[3] x) => (bool[2,3] y) <bool[2,1] f = {0, 0}> { y = And(x, f) }
""")
