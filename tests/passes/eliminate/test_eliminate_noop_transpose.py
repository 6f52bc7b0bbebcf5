from tests.tables import pass_cases

test_cases = pass_cases("""
identity: (float[2,3] x) => (float[2,3] y) { t = Transpose<perm = [0, 1]>(x) y = Exp(t) }
  | (float[2,3] x) => (float[2,3] y) { y = Exp(x) }
ones: (float[1,1,N] x) => (float[1,1,N] y) { t = Transpose<perm = [1, 0, 2]>(x) y = Exp(t) }
  | (float[1,1,N] x) => (float[1,1,N] y) { y = Exp(x) }
vector: (float[N] x) => (float[N] y) { t = Transpose(x) y = Exp(t) }
  | (float[N] x) => (float[N] y) { y = Exp(x) }
moves: (float[2,2] x) => (float[2,2] y) { y = Transpose(x) }
moves a one: (float[1,2] x) => (float[2,1] y) { y = Transpose<perm = [1, 0]>(x) }
dynamic: (float[N,N] x) => (float[N,N] y) { y = Transpose<perm = [1, 0]>(x) }
""")
