from tests.tables import pass_cases


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


test_cases = pass_cases("""
(float[2,3,4] a, float[2,4,5] b) => (float[?,?,?] y) { y = Einsum<equation = "bij, bjk ->
  bik">(a, b) } | (float[2,3,4] a, float[2,4,5] b) => (float[?,?,?] y) { y = MatMul(a, b) }
(float[2,3,N] a, float[2,N,5] b) => (float[?,?,?] y) { y = Einsum<equation = "bij,bjk->bik">(a,
  b) } | (float[2,3,N] a, float[2,N,5] b) => (float[?,?,?] y) { y = MatMul(a, b) }
(float[3,4] a, float[4,5] b) => (float[?,?] y) { y = Einsum<equation = "ij,jk">(a, b) } |
  (float[3,4] a, float[4,5] b) => (float[?,?] y) { y = MatMul(a, b) }
(float[2,3,4] a, float[4,5] b) => (float[?,?,?] y) { y = Einsum<equation = "bsd,df->bsf">(a, b)
  } | (float[2,3,4] a, float[4,5] b) => (float[?,?,?] y) { y = MatMul(a, b) }
(float[2,4,5] a, float[2,3,4] b) => (float[?,?,?] y) { y = Einsum<equation = "bjk,bij->bik">(a,
  b) } | (float[2,4,5] a, float[2,3,4] b) => (float[?,?,?] y) { y = MatMul(b, a) }
not-constant: (float[2,3] a, float[4,3] b) => (float y) { y = Einsum<equation = "ij,kj->ik">(a,
  b) }
broadcast-sum: (float[2,1] a, float[3,4] b) => (float y) { y = Einsum<equation =
  "ij,jk->ik">(a, b) }
unknown-sum: (float[2,N] a, float[M,4] b) => (float y) { y = Einsum<equation = "ij,jk->ik">(a,
  b) }
result-transposed: (float[2,3] a, float[3,4] b) => (float y) { y = Einsum<equation =
  "ij,jk->ki">(a, b) }
sum-of-columns: (float[2,3] a, float[3,4] b) => (float y) { y = Einsum<equation =
  "ij,jk->i">(a, b) }
no-sum: (float[2,3] a, float[2,3] b) => (float y) { y = Einsum<equation = "ij,ij->ij">(a, b) }
diagonal: (float[3,3] a, float[3,4] b) => (float y) { y = Einsum<equation = "ii,ik->ik">(a, b)
  }
ellipsis: (float[2,3] a, float[3,4] b) => (float y) { y = Einsum<equation = "...j,jk->...k">(a,
  b) }
integers: (int32[2,3] a, int32[3,4] b) => (int32 y) { y = Einsum<equation = "ij,jk->ik">(a, b)
  }
""")
