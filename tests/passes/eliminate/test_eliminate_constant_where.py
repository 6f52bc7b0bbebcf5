from tests.tables import pass_cases

test_cases = pass_cases("""
always: (float[2] x, float[2] z) => (float[2] y) <bool t = {1}> { a = Where(t, x, z)
  y = Exp(a) } | (float[2] x, float[2] z) => (float[2] y) { y = Exp(x) }
never: (float[2] x, float[2] z) => (float[2] y) <bool[2] t = {0, 0}> { a = Where(t, x, z)
  y = Exp(a) } | (float[2] x, float[2] z) => (float[2] y) { y = Exp(z) }
the same: (float[2] x, float[2] z, bool[2] c) => (float[2] y) { a = Where(c, x, x)
  y = Exp(a) } | (float[2] x, float[2] z, bool[2] c) => (float[2] y) { y = Exp(x) }
mixed: (float[2] x, float[2] z) => (float[2] y) <bool[2] t = {0, 1}> { y = Where(t, x, z) }
broadcast by the other: (float x, float[2] z) => (float[2] y) <bool t = {1}> {
  y = Where(t, x, z) }
broadcast by the condition: (float x, float z) => (float[2] y) <bool[2] t = {1, 1}> {
  y = Where(t, x, z) }
""")
