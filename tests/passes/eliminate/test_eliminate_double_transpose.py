from tests.tables import pass_cases

test_cases = pass_cases("""
undo: (float[2,3] x) => (float[2,3] y) { a = Transpose(x) b = Transpose(a) y = Exp(b) }
  | (float[2,3] x) => (float[2,3] y) { y = Exp(x) }
merge: (float[2,3,4] x) => (float[A,B,C] y) { a = Transpose<perm = [1, 2, 0]>(x)
  y = Transpose<perm = [1, 2, 0]>(a) }
  | (float[2,3,4] x) => (float[A,B,C] y) { y = Transpose<perm = [2, 0, 1]>(x) }
three: (float[2,3,4] x) => (float[2,3,4] y) { a = Transpose<perm = [1, 2, 0]>(x)
  b = Transpose<perm = [1, 2, 0]>(a) c = Transpose<perm = [1, 2, 0]>(b) y = Exp(c) }
  | (float[2,3,4] x) => (float[2,3,4] y) { y = Exp(x) }
one: (float[2,3,4] x) => (float[A,B,C] y) { y = Transpose<perm = [1, 2, 0]>(x) }
something between: (float[2,3] x) => (float[2,3] y) { a = Transpose(x) b = Exp(a)
  y = Transpose(b) }
""")
