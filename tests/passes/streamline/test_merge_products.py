import pytest

from tests.tables import each_of, each_row

HEAD = """(float[2,3,4] x, float[2,4,3] u, float[4] q) => (float[A,B,C] y)
<float[4,2] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[4,2] v = {1, 1, 0, 2, 3, 1, 0, 1},
float[4,2] n = {-1, -2, -3, -4, -5, -6, -7, -8}, float[2,3] k = {1, 2, 3, 4, 5, 6}> """


@pytest.fixture
def merged(applied):
    def kinds(body):
        model = applied(HEAD + "{ " + body + " y = Relu(z) }")
        return model and [
            n.op_type for n in model.graph if n.op_type not in ("Constant", "Relu")
        ]

    return kinds


@each_row("""body | kinds
- t = MatMul(x, w) z = MatMul(t, k) | =['MatMul']
- t = MatMul(k, x) z = MatMul(w, t) | =['MatMul']
- s = MatMul(x, w) t = MatMul(x, v) z = Add(s, t) | =['MatMul']
- s = MatMul(w, e) t = MatMul(v, e) z = Add(s, t) | =None
- s = Transpose<perm = [0, 2, 1]>(x) t = Transpose<perm = [0, 2, 1]>(u)z = MatMul(s, t) |
  =['MatMul', 'Transpose']
""")
def test_fires(body, kinds, merged):
    body = body.replace("e)", "k)")
    assert merged(body) == kinds


@each_of(
    "body",
    "s = MatMul(x, w) t = MatMul(x, n) z = Add(s, t)",  # they cancel each other
    "s = Transpose<perm = [2, 0, 1]>(x) z = MatMul(s, u)",
    "s = MatMul(x, u) z = MatMul(s, x)",
)
def test_leaves_alone(body, merged):
    assert merged(body) is None
