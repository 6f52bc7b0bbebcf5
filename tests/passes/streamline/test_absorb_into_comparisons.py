import numpy as np
import pytest

from tests.tables import each_of

HEAD = """(float[N,3] x) => (bool[N,3] y)
<float a = {-3}, float b = {0.5}, float two = {2}, float[3] c = {2, -1, 4},
float[3] d = {2, 1, 4}> """


@pytest.fixture
def absorbed(applied):
    return lambda body: applied(HEAD + "{ " + body + " }")


@each_of(
    "body, kinds",
    ("m = Mul(x, d) n = Add(m, a) r = Relu(n) y = Greater(r, b)", ["GreaterOrEqual"]),
    ("s = Sigmoid(x) y = LessOrEqual(b, s)", ["GreaterOrEqual"]),
    ("m = Mul(x, a) y = Less(m, b)", ["GreaterOrEqual"]),
    ("m = Neg(x) y = Greater(m, b)", ["Less"]),
    ("m = Exp(x) y = Greater(m, b)", ["GreaterOrEqual"]),
    ("m = Log(x) y = Greater(m, b)", ["GreaterOrEqual"]),
    ("m = Clip(x, a, b) y = GreaterOrEqual(m, b)", ["GreaterOrEqual"]),
    ("m = Mul(x, x) y = GreaterOrEqual(m, d)", ["Less", "GreaterOrEqual", "Or"]),
    ("m = Pow(x, two) y = Less(m, d)", ["GreaterOrEqual", "Less", "And"]),
)
def test_fires(body, kinds, absorbed):
    model = absorbed(body)
    assert [node.op_type for node in model.graph if node.op_type != "Constant"] == kinds


def test_the_number_is_the_least_float_that_makes_a_difference(absorbed):
    model = absorbed("m = Mul(x, d) n = Add(m, a) y = GreaterOrEqual(n, b)")
    found = model.graph[-1].inputs[1].producer().attributes["value"].as_tensor().numpy()
    factors = np.array([2, 1, 4], np.float32)

    def holds(x):
        return x * factors + np.float32(-3) >= np.float32(0.5)

    assert holds(found).all()
    assert not holds(np.nextafter(found, np.float32(-np.inf))).any()


@each_of(
    "body",
    "m = Mul(x, c) y = Less(m, b)",  # one channel falls
    "m = Relu(x) y = GreaterOrEqual(m, a)",  # always
    "m = Add(x, b) y = Equal(m, a)",
    "m = Add(x, x) y = Greater(m, x)",
    "y = Greater(x, b)",
)
def test_leaves_alone(body, absorbed):
    assert absorbed(body) is None


def test_equality_of_floats_is_not_that_with_another_number(absorbed):
    """Several floats, or none, give what is asked for: a quotient is one of them at most."""

    def sources(factor, asked):
        near = np.float32(asked / factor).view(np.int32) + np.arange(-9, 10, dtype=np.int32)
        return int(np.sum(near.view(np.float32) * factor == asked))

    asked = np.linspace(0.3, 0.6, 50, dtype=np.float32)
    assert 0 in {sources(np.float32(1.7), number) for number in asked}
    assert max(sources(np.float32(0.6), number) for number in asked) > 1
    assert absorbed("m = Mul(x, b) n = Add(m, a) y = Equal(n, d)") is None


def test_a_comparison_of_one_number_stays_one(applied):
    model = applied("(float x) => (bool y) <float b = {0.5}> {r = Relu(x) y = Greater(r, b)}")
    constant = model.graph.node(-1).inputs[1].producer()
    assert constant.attributes["value"].as_tensor().numpy().shape == ()
