from tests.tables import inferred, pass_cases


def model(x, merged, parted, y, perm="0, 2, 1", more="y = Neg(r)"):
    return inferred(f"""(float[{x}] x) => (float[{y}] y)
      <int64[{merged.count(",") + 1}] m = {{{merged}}},
       int64[{parted.count(",") + 1}] p = {{{parted}}}> {{
      f = Reshape(x, m) t = Transpose<perm = [{perm}]>(f) r = Reshape(t, p) {more} }}""")


test_cases = pass_cases("""
static: =model('2,3,4,5', '6,4,5', '2,3,5,4', '2,3,5,4') | (float[2,3,4,5] x) =>
  (float[2,3,5,4] y) { r = Transpose<perm = [0, 1, 3, 2]>(x) y = Neg(r) }
inferred: =model('2,3,4,5', '-1,4,5', '2,-1,5,4', '2,3,5,4') | (float[2,3,4,5] x) =>
  (float[2,3,5,4] y) { r = Transpose<perm = [0, 1, 3, 2]>(x) y = Neg(r) }
dynamic: =model('2,3,N,5', '6,-1,5', '2,3,5,-1', '2,3,5,N') | (float[2,3,N,5] x) =>
  (float[2,3,5,N] y) { r = Transpose<perm = [0, 1, 3, 2]>(x) y = Neg(r) }
parted-otherwise: =model('2,3,4,5', '6,4,5', '3,2,5,4', '3,2,5,4')
merged-otherwise: =model('2,3,4,4', '6,2,8', '2,3,4,4', '2,3,4,4')
no-swap: =model('2,3,4,5', '6,4,5', '2,3,4,5', '2,3,4,5', perm='0, 1, 2')
second-reader: =model('2,3,4,5', '6,4,5', '2,3,5,4', '?,?,?,?', more='s = ReduceSum(t) y =
  Add(r, s)')
unknown: =model('A,B,4,5', '-1,4,5', '6,-1,5,4', '6,?,5,4')
""")
