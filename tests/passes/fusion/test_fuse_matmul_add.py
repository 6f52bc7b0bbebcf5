import pytest

from tests.tables import cases_in, each_of


@each_of(
    "inputs, summand",
    pytest.param("float[2,3] a, float[3,4] b, float[4] c", "t, c", id="row"),
    pytest.param("float[2,3] a, float[3,4] b, float[1,4] c", "c, t", id="row-of-rank-2"),
    pytest.param("float[2,3] a, float[3,4] b, float c", "t, c", id="scalar"),
    pytest.param("float[2,3] a, float[3,4] b, float[2,1] c", "t, c", id="column"),
    pytest.param("float[M,3] a, float[3,4] b, float[M,4] c", "t, c", id="named"),
    pytest.param("float[M,3] a, float[3,4] b, float[1,4] c", "t, c", id="dynamic"),
    pytest.param("double[2,3] a, double[3,4] b, double[4] c", "t, c", id="double"),
    pytest.param("float[0,3] a, float[3,4] b, float[4] c", "t, c", id="empty"),
)
def test_fires(inputs, summand, rewrites):
    dtype = inputs.partition("[")[0]
    head = f"({inputs}) => ({dtype}[?,?] y)"
    rewrites(
        f"{head} {{ t = MatMul(a, b) y = Add({summand}) }}", f"{head} {{ y = Gemm(a, b, c) }}"
    )


def added(inputs, dims="?,?"):
    dtype = inputs.partition("[")[0]
    return f"({inputs}) => ({dtype}[{dims}] y) {{ t = MatMul(a, b) y = Add(t, c) }}"


test_cases = cases_in(added)("""
batch: =added('float[2,2,3] a, float[3,4] b, float[4] c', '?,?,?')
vector: =added('float[3] a, float[3,4] b, float[4] c', '?')
unknown-size: float[2,3] a, float[3,4] b, float[N] c
bigger: float[1,3] a, float[3,4] b, float[5,4] c
higher-rank: =added('float[2,3] a, float[3,4] b, float[1,1,4] c', '?,?,?')
integers: int32[2,3] a, int32[3,4] b, int32[4] c
read elsewhere: (float[2,3] a, float[3,4] b, float[4] c) => (float[2,4] y, float[2,4] z)
  { t = MatMul(a, b) z = Relu(t) y = Add(t, c) }
""")
