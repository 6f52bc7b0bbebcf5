import pytest

from tests.tables import cases


@pytest.mark.parametrize(
    ("inputs", "before", "after"),
    cases("""
first: float[3,2] a, float[3,4] b | t = Transpose(a) y = Gemm(t, b)
  | y = Gemm<transA = 1>(a, b)
second: float[2,3] a, float[4,3] b, float[4] c
  | t = Transpose<perm = [1, 0]>(b) y = Gemm<alpha = 2.0>(a, t, c)
  | y = Gemm<alpha = 2.0, transB = 1>(a, b, c)
undone: float[2,3] a, float[3,4] b | t = Transpose(b) y = Gemm<transB = 1>(a, t)
  | y = Gemm<transB = 0>(a, b)
both: float[3,2] a, float[4,3] b | t = Transpose(a) u = Transpose(b) y = Gemm(t, u)
  | y = Gemm<transA = 1, transB = 1>(a, b)
twice-the-same: float[3,3] a | t = Transpose(a) y = Gemm(t, t)
  | y = Gemm<transA = 1, transB = 1>(a, a)
"""),
)
def test_fires(inputs, before, after, rewrites):
    head = f"({inputs}) => (float[?,?] y)"
    rewrites(f"{head} {{ {before} }}", f"{head} {{ {after} }}")


def test_leaves_a_transpose_by_nothing_alone(leaves_alone):
    text = """(float[2,3] a, float[3,4] b) => (float[2,4] y)
      { t = Transpose<perm = [0, 1]>(a) y = Gemm(t, b) }"""
    leaves_alone(text)
