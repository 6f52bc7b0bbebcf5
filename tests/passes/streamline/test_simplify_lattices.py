import pytest

from tests.tables import cases_in, each_of

BOOLS = "(bool[N] x, bool[N] u, bool[N] v) => (bool[N] y) "
NUMBERS = """(float[N] x, float[N] u, int32[N] i, int32[N] j) => (float[N] y, int32[N] k)
<float c = {2}, float n = {nan}> """


@pytest.fixture
def simplified(applied):
    return lambda body: applied(NUMBERS.replace("nan", "2") + "{ " + body + " }")


@each_of(
    "body, fires",
    ("t = Max(x, c) y = Min(x, t) k = Abs(i)", True),
    ("t = Max(i, j) k = Min(t, i) y = Abs(x)", True),
    ("t = Max(x, u) y = Min(x, t) k = Abs(i)", False),  # u may be NaN
    ("s = Max(x, u) t = Max(x, c) y = Min(s, t) k = Abs(i)", True),
)
def test_numbers(body, fires, simplified):
    assert (simplified(body) is not None) == fires


test_cases = cases_in(lambda body: BOOLS + "{ " + body + " }")("""
y = And(x, x) | > Identity
t = Or(u, x) y = And(x, t) | > Identity
t = And(x, u) y = Or(t, x) | > Identity
s = And(x, u) t = And(v, x) y = Or(s, t) | > Or And
s = Or(x, u) t = Or(v, x) y = And(s, t) | > And Or
s = And(u, x) t = And(v, x) y = Xor(s, t) | > Xor And
(bool[3] x, bool[2,3] u) => (bool[2,3] y) { t = Or(x, u) y = And(x, t) }
(bool[N] x, bool[N] u) => (bool[N] y, bool[N] t) { t = Or(x, u) y = And(x, t) }
(bool[N] x, bool[N] u, bool[N] v) => (bool[N] y) { t = Or(v, u) y = And(x, t) }
""")
