import pytest


@pytest.mark.parametrize(
    ("inputs", "equation", "after"),
    [
        ("float[2,3,4] a, float[2,4,5] b", "bij, bjk -> bik", "MatMul(a, b)"),
        ("float[2,3,N] a, float[2,N,5] b", "bij,bjk->bik", "MatMul(a, b)"),
        ("float[3,4] a, float[4,5] b", "ij,jk", "MatMul(a, b)"),
        ("float[2,3,4] a, float[4,5] b", "bsd,df->bsf", "MatMul(a, b)"),
        ("float[2,4,5] a, float[2,3,4] b", "bjk,bij->bik", "MatMul(b, a)"),
    ],
)
def test_becomes_a_product(inputs, equation, after, rewrites):
    rank = ",".join("?" * inputs.partition("]")[0].count(",")) + ",?"
    head = f"({inputs}) => (float[{rank}] y)"
    before = f'{head} {{ y = Einsum<equation = "{equation}">(a, b) }}'
    rewrites(before, f"{head} {{ y = {after} }}")


def test_transposes_a_constant_and_an_operand_alone(rewrites):
    head = "(float[2,3] a) => (float[?,?] y)"
    weight = "<float[2,3] w = {1, 2, 3, 4, 5, 6}>"
    rewrites(
        f'{head} {weight} {{ y = Einsum<equation = "ij,kj->ik">(a, w) }}',
        f"{head} {weight} {{ t = Transpose<perm = [1, 0]>(w) y = MatMul(a, t) }}",
    )
    rewrites(
        f'{head} {{ y = Einsum<equation = "ij->ji">(a) }}',
        f"{head} {{ y = Transpose<perm = [1, 0]>(a) }}",
    )


@pytest.mark.parametrize(
    ("inputs", "equation"),
    [
        pytest.param("float[2,3] a, float[4,3] b", "ij,kj->ik", id="not-constant"),
        pytest.param("float[2,1] a, float[3,4] b", "ij,jk->ik", id="broadcast-sum"),
        pytest.param("float[2,N] a, float[M,4] b", "ij,jk->ik", id="unknown-sum"),
        pytest.param("float[2,3] a, float[3,4] b", "ij,jk->ki", id="result-transposed"),
        pytest.param("float[2,3] a, float[3,4] b", "ij,jk->i", id="sum-of-columns"),
        pytest.param("float[2,3] a, float[2,3] b", "ij,ij->ij", id="no-sum"),
        pytest.param("float[3,3] a, float[3,4] b", "ii,ik->ik", id="diagonal"),
        pytest.param("float[2,3] a, float[3,4] b", "...j,jk->...k", id="ellipsis"),
        pytest.param("int32[2,3] a, int32[3,4] b", "ij,jk->ik", id="integers"),
    ],
)
def test_leaves_alone(inputs, equation, leaves_alone):
    kind = inputs.partition("[")[0]
    text = f'({inputs}) => ({kind} y) {{ y = Einsum<equation = "{equation}">(a, b) }}'
    leaves_alone(text)
