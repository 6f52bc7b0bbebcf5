from tests.tables import each_of, pass_cases

BOOLS = """(bool[2,N] x, bool[2,N] u) => (bool[2,N] y)
<bool t = {1}, bool[2,1] c = {0, 1}> """
INTS = "(int32[N] x, int32[N] u) => (int32[N] y) <int32 a = {3}, int32 b = {-4}> "
FLOATS = "(float[N] x, float[N] u) => (float[N] y) <float a = {3}, float b = {-4}> "


def constants_read(model):
    """How many constants each node reads."""
    nodes = [node for node in model.graph if node.op_type != "Constant"]
    return [sum(v.const_value is not None for v in node.inputs) for node in nodes]


@each_of(
    "graph, constants",
    (BOOLS + "{ y = And(t, x) }", [1]),
    (BOOLS + "{ s = Or(x, t) y = Or(s, c) }", [2, 0]),
    (BOOLS + "{ s = Xor(x, t) y = Xor(s, u) }", [0, 1]),
    (INTS + "{ s = Add(x, a) r = Add(u, s) y = Add(r, b) }", [0, 2, 0]),
    (INTS + "{ s = Mul(x, a) y = Mul(u, s) }", [0, 1]),
    (FLOATS + "{ s = Max(x, a) y = Max(s, u) }", [0, 1]),
)
def test_fires(graph, constants, rewrites):
    assert constants_read(rewrites(graph)) == constants


test_cases = pass_cases("""
=FLOATS + '{ s = Add(x, a) y = Add(s, u) }'
=INTS + '{ s = Sub(x, a) y = Sub(s, u) }'
(int32[2,3] x) => (int32[2,3] y) <int32[2,1] a = {1, 2}, int32[3] b = {1, 2, 3}>{ s = Add(x, a)
  y = Add(s, b) }
""")
