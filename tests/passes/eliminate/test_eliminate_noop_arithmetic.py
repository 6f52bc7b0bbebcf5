from tests.tables import pass_cases

test_cases = pass_cases("""
mul: (float[2,3] x) => (float[2,3] y) <float[1] c = {1}> { t = Mul(x, c) y = Exp(t) }
  | (float[2,3] x) => (float[2,3] y) { y = Exp(x) }
mul flipped: (float[2,3] x) => (float[2,3] y) <float[1] c = {1}> { t = Mul(c, x) y = Exp(t) }
  | (float[2,3] x) => (float[2,3] y) { y = Exp(x) }
div: (float[2,3] x) => (float[2,3] y) <float[1] c = {1}> { t = Div(x, c) y = Exp(t) }
  | (float[2,3] x) => (float[2,3] y) { y = Exp(x) }
sub: (float[2,3] x) => (float[2,3] y) <float[1] c = {0}> { t = Sub(x, c) y = Exp(t) }
  | (float[2,3] x) => (float[2,3] y) { y = Exp(x) }
add minus zero: (float[2,3] x) => (float[2,3] y) <float[1] c = {-0.0}> { t = Add(x, c)
  y = Exp(t) } | (float[2,3] x) => (float[2,3] y) { y = Exp(x) }
pow: (float[2,3] x) => (float[2,3] y) <float[1] c = {1}> { t = Pow(x, c) y = Exp(t) }
  | (float[2,3] x) => (float[2,3] y) { y = Exp(x) }
integer add: (int64[2,3] x) => (int64[2,3] y) <int64 c = {0}> { t = Add(c, x) y = Abs(t) }
  | (int64[2,3] x) => (int64[2,3] y) { y = Abs(x) }
bitwise and: (int64[2,3] x) => (int64[2,3] y) <int64 c = {-1}> { t = BitwiseAnd(x, c)
  y = Abs(t) } | (int64[2,3] x) => (int64[2,3] y) { y = Abs(x) }
bitwise or: (int64[2,3] x) => (int64[2,3] y) <int64 c = {0}> { t = BitwiseOr(x, c)
  y = Abs(t) } | (int64[2,3] x) => (int64[2,3] y) { y = Abs(x) }
and: (bool[2] x) => (bool[2] y) <bool c = {1}> { t = And(x, c) y = Not(t) }
  | (bool[2] x) => (bool[2] y) { y = Not(x) }
shift: (uint8[2] x) => (uint8[2] y) <uint8 c = {0}> { t = BitShift<direction = "LEFT">(x, c)
  y = BitwiseNot(t) } | (uint8[2] x) => (uint8[2] y) { y = BitwiseNot(x) }
power of integers: (int64[2] x) => (int64[2] y) <int64 c = {1}> { y = Pow(x, c) }
plus zero turns -0 into 0: (float[2,3] x) => (float[2,3] y) <float c = {0}> { y = Add(x, c) }
zero minus: (float[2,3] x) => (float[2,3] y) <float c = {0}> { y = Sub(c, x) }
one over: (float[2,3] x) => (float[2,3] y) <float c = {1}> { y = Div(c, x) }
one to the power: (float[2,3] x) => (float[2,3] y) <float c = {1}> { y = Pow(c, x) }
minus minus zero: (float[2,3] x) => (float[2,3] y) <float c = {-0.0}> { y = Sub(x, c) }
bigger: (float[3] x) => (float[2,3] y) <float[2,1] c = {1, 1}> { y = Mul(x, c) }
dynamic against many: (float[N] x) => (float[3] y) <float[3] c = {1, 1, 1}> { y = Mul(x, c) }
one other element: (float[2,3] x) => (float[2,3] y) <float[3] c = {1, 1, 2}> {
  y = Mul(x, c) }
a default that callers may override: (float[2] x, float c) => (float[2] y) <float c = {1}> {
  y = Mul(x, c) }
""")
