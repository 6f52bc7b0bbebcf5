import pytest

from tests.tables import each_of


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


@each_of(
    "inputs, dims",
    pytest.param("float[2,2,3] a, float[3,4] b, float[4] c", "?,?,?", id="batch"),
    pytest.param("float[3] a, float[3,4] b, float[4] c", "?", id="vector"),
    pytest.param("float[2,3] a, float[3,4] b, float[N] c", "?,?", id="unknown-size"),
    pytest.param("float[1,3] a, float[3,4] b, float[5,4] c", "?,?", id="bigger"),
    pytest.param("float[2,3] a, float[3,4] b, float[1,1,4] c", "?,?,?", id="higher-rank"),
    pytest.param("int32[2,3] a, int32[3,4] b, int32[4] c", "?,?", id="integers"),
)
def test_leaves_alone(inputs, dims, leaves_alone):
    dtype = inputs.partition("[")[0]
    leaves_alone(f"({inputs}) => ({dtype}[{dims}] y) {{ t = MatMul(a, b) y = Add(t, c) }}")


def test_leaves_a_product_alone_that_is_read_elsewhere(leaves_alone):
    text = """(float[2,3] a, float[3,4] b, float[4] c) => (float[2,4] y, float[2,4] z)
      { t = MatMul(a, b) z = Relu(t) y = Add(t, c) }"""
    leaves_alone(text)
