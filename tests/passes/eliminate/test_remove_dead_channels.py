import pytest

from tests.tables import cases

HEAD = "(float[N,2] x) => (float[N,2] y)"


@pytest.mark.parametrize(
    ("before", "after"),
    cases("""
zero-column: <float[2,3] w = {1, 0, 2, 3, 0, 4}, float[3,2] v = {1, 2, 3, 4, 5, 6}>
  | <float[2,2] w = {1, 2, 3, 4}, float[2,2] v = {1, 2, 5, 6}>
unread-channel: <float[2,3] w = {1, 9, 2, 3, 9, 4}, float[3,2] v = {1, 2, 0, 0, 5, 6}>
  | <float[2,2] w = {1, 2, 3, 4}, float[2,2] v = {1, 2, 5, 6}>
"""),
)
def test_products(before, after, rewrites):
    body = "{ h = MatMul(x, w) r = Relu(h) y = MatMul(r, v) }"
    rewrites(f"{HEAD} {before} {body}", f"{HEAD} {after} {body}")


def test_a_bias_goes_with_its_channel(rewrites):
    head = "(float[N,1,2,2] x) => (float[N,1,2,2] y)"
    body = "{ h = Conv(x, w, b) r = Relu(h) y = Conv(r, v) }"
    before = """<float[3,1,1,1] w = {1, 0, 0}, float[3] b = {1, 0, 2},
      float[1,3,1,1] v = {1, 2, 3}>"""
    after = "<float[2,1,1,1] w = {1, 0}, float[2] b = {1, 2}, float[1,2,1,1] v = {1, 3}>"
    rewrites(f"{head} {before} {body}", f"{head} {after} {body}")


WEIGHTS = "<float[2,3] w = {1, 0, 2, 3, 0, 4}, float[3,2] v = {1, 2, 3, 4, 5, 6}>"


@pytest.mark.parametrize(
    "body",
    cases("""
not-zero-at-zero: h = MatMul(x, w) r = Sigmoid(h) y = MatMul(r, v)
read-twice: h = MatMul(x, w) r = Relu(h) y = MatMul(r, v) z = ReduceSum(h)
not-elementwise: h = MatMul(x, w) r = Softmax(h) y = MatMul(r, v)
"""),
)
def test_leaves_alone(body, leaves_alone):
    head = "(float[N,2] x) => (float[N,2] y, float[?,?] z)" if "z =" in body else HEAD
    leaves_alone(f"{head} {WEIGHTS} {{ {body} }}")
