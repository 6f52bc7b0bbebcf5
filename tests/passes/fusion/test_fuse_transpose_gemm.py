from tests.tables import pass_cases

test_cases = pass_cases("""
first: (float[3,2] a, float[3,4] b) => (float[?,?] y) { t = Transpose(a) y = Gemm(t, b) } |
  (float[3,2] a, float[3,4] b) => (float[?,?] y) { y = Gemm<transA = 1>(a, b) }
second: (float[2,3] a, float[4,3] b, float[4] c) => (float[?,?] y) { t = Transpose<perm = [1,
  0]>(b) y = Gemm<alpha = 2.0>(a, t, c) } | (float[2,3] a, float[4,3] b, float[4] c) =>
  (float[?,?] y) { y = Gemm<alpha = 2.0, transB = 1>(a, b, c) }
undone: (float[2,3] a, float[3,4] b) => (float[?,?] y) { t = Transpose(b) y = Gemm<transB =
  1>(a, t) } | (float[2,3] a, float[3,4] b) => (float[?,?] y) { y = Gemm<transB = 0>(a, b) }
both: (float[3,2] a, float[4,3] b) => (float[?,?] y) { t = Transpose(a) u = Transpose(b) y =
  Gemm(t, u) } | (float[3,2] a, float[4,3] b) => (float[?,?] y) { y = Gemm<transA = 1, transB =
  1>(a, b) }
twice-the-same: (float[3,3] a) => (float[?,?] y) { t = Transpose(a) y = Gemm(t, t) } |
  (float[3,3] a) => (float[?,?] y) { y = Gemm<transA = 1, transB = 1>(a, a) }
leaves a transpose by nothing alone: (float[2,3] a, float[3,4] b) => (float[2,4] y) { t =
  Transpose<perm = [0, 1]>(a) y = Gemm(t, b) }
""")
