import pytest

from tests.tables import each_of, inferred, pass_cases


def model(body, *, x="float[B,32] x", rank=4):
    dims = ",".join("?" * rank)
    return inferred(f"""({x}) => (float[{dims}] y) {{ {body} }}""")


def tensor(sizes):
    return f"s = Constant<value = int64[{sizes.count(',') + 1}] {{{sizes}}}>()"


@each_of(
    "target, perm, after",
    pytest.param("-1, 1, 8, 4", "0, 2, 1, 3", "-1, 8, 1, 4", id="heads-of-one-word"),
    pytest.param("0, 8, 1, 4", "0, 2, 1, 3", "-1, 1, 8, 4", id="copied"),
    pytest.param("1, -1, 32, 1", "1, 0, 2, 3", "-1, 1, 32, 1", id="first-axis"),
)
def test_fires(target, perm, after, rewrites):
    head = "s = Constant<value_ints = [{}]>()"
    before = model(
        f"{head.format(target)} r = Reshape(x, s) y = Transpose<perm = [{perm}]>(r)"
    )
    rewrites(before, model(f"{tensor(after)} y = Reshape(x, s)"))


test_cases = pass_cases("""
reverses axes without a permutation: =model('s = Constant<value_ints = [1, -1]>() r =
  Reshape(x, s) y = Transpose(r)', rank=2) | =model(f"{tensor('-1, 1')} y = Reshape(x, s)",
  rank=2)
elements-move: =model('s = Constant<value_ints = [-1, 2, 4, 4]>() r = Reshape(x, s) y =
  Transpose<perm = [0, 2, 1, 3]>(r)', x='float[B,32] x')
two-unknown-dimensions: =model('s = Constant<value_ints = [0, -1, 1, 4]>() r = Reshape(x, s) y
  = Transpose<perm = [0, 2, 1, 3]>(r)', x='float[B,S] x')
another-reader: =model('s = Constant<value_ints = [-1, 1, 8, 4]>() r = Reshape(x, s) t =
  Transpose<perm = [0, 2, 1, 3]>(r) u = Transpose<perm = [0, 2, 1, 3]>(t) y = Add(r, u)',
  x='float[B,32] x')
empty: =model('s = Constant<value_ints = [2, 1, 0, 4]>() r = Reshape<allowzero = 1>(x, s) y =
  Transpose<perm = [0, 2, 1, 3]>(r)', x='float[0,32] x')
""")
