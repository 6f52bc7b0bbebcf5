import pytest

from tests.tables import each_of, inferred

HEAD = """(float[N,S,96] x) => (float[N,4,S,8] q, float[N,4,8,S] k, float[N,4,S,8] v)
  <int64[3] z = {32, 32, 32}, int64[4] s = {0, 0, 4, 8}, int64[4] i = {0, -1, 4, 8},
   int64[4] w = {0, 0, 12, 8}, int64[3] n = {4, 4, 4}> """
PARTED = """a, b, c = Split<axis = 2>(x, z)
  d = Reshape(a, s) e = Reshape(b, s) f = Reshape(c, s)
  q = Transpose<perm = [0, 2, 1, 3]>(d) k = Transpose<perm = [0, 2, 3, 1]>(e)
  v = Transpose<perm = [0, 2, 1, 3]>(f)"""
MOVED = """r = Reshape(x, w) t = Transpose<perm = [0, 2, 1, 3]>(r)
  q, b, v = Split<axis = 1>(t, n) k = Transpose<perm = [0, 1, 3, 2]>(b)"""


def test_parts_heads_once(rewrites):
    rewrites(inferred(f"{HEAD}{{{PARTED}}}"), f"{HEAD}{{{MOVED}}}")


def test_an_inferred_dimension_stays_inferred(rewrites):
    after = MOVED.replace("(x, w)", "(x, u)")
    head = HEAD.replace("}> ", "}, int64[4] u = {0, -1, 12, 8}> ")
    before = inferred(f"{HEAD}{{{PARTED.replace(', s)', ', i)')}}}")
    rewrites(before, f"{head}{{{after}}}")


def test_gathers_of_one_index_each(rewrites):
    head = """(float[N,S,4,3,8] x) => (float[N,4,S,8] q, float[N,4,8,S] k, float[N,4,S,8] v)
      <int64 zero = {0}, int64 one = {1}, int64 two = {2}> """
    before = """a = Gather<axis = 3>(x, zero) b = Gather<axis = 3>(x, one)
      c = Gather<axis = 3>(x, two)"""
    turned = PARTED.partition("f = Reshape(c, s)")[2]
    turned = turned.replace("(d)", "(a)").replace("(e)", "(b)").replace("(f)", "(c)")
    after = """t = Transpose<perm = [3, 0, 2, 1, 4]>(x) q = Gather<axis = 0>(t, zero)
      b = Gather<axis = 0>(t, one) k = Transpose<perm = [0, 1, 3, 2]>(b)
      v = Gather<axis = 0>(t, two)"""
    rewrites(inferred(f"{head}{{{before}{turned}}}"), f"{head}{{{after}}}")


@each_of(
    "old, new",
    pytest.param("(b, s)", "(b, i)", id="other-targets"),
    pytest.param("axis = 2>(x", "axis = 0>(y", id="another-axis"),
    pytest.param("e = Reshape(b, s)", "g = Neg(b) e = Reshape(g, s)", id="between"),
)
def test_leaves_alone(old, new, leaves_alone):
    head = HEAD.replace("x)", "x, float[96,S,32] y)").replace("float[N,", "float[?,")
    text = PARTED.replace(old, new).replace("(d)", "(d)")
    text = text.partition("q = ")[0] + "q = Neg(d) k = Neg(e) v = Neg(f)"
    leaves_alone(f"{head.replace(',8,S]', ',S,8]')}{{{text}}}")


def test_an_index_that_is_made_between_is_not_read_before(rewrites):
    text = """(float[N,S,4,2,8] x) => (float[N,4,S,8] p, float[N,4,S,8] q)
      {{ i = Constant<value = int64 {{0}}>() {first}
      k = Constant<value = int64 {{1}}>() {second} }}"""
    turn = "Transpose<perm = [0, 2, 1, 3]>"
    before = text.format(
        first=f"a = Gather<axis = 3>(x, i) p = {turn}(a)",
        second=f"b = Gather<axis = 3>(x, k) q = {turn}(b)",
    )
    after = text.format(
        first="t = Transpose<perm = [3, 0, 2, 1, 4]>(x) p = Gather<axis = 0>(t, i)",
        second="q = Gather<axis = 0>(t, k)",
    )
    rewrites(inferred(before), after)
