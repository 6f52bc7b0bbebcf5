from tests.tables import pass_cases


def graph(body, shape, target=(-1, 4)):
    numbers = ", ".join(map(str, target))
    fixed = f"int64[{len(target)}] s = {{{numbers}}}"
    dims = ",".join("?" * len(target))
    return f"(float[{shape}] x) => (float[{dims}] y) <{fixed}> {{ {body} }}"


def test_a_target_may_copy_an_axis_that_stays(rewrites):
    """The windows of a small Swin stayed four nodes where there is only one."""
    shape, target = "N,1,8,4", (0, 32)
    before = graph("t = Transpose<perm = [0, 2, 1, 3]>(x) y = Reshape(t, s)", shape, target)
    rewrites(before, graph("y = Reshape(x, s)", shape, target))


test_cases = pass_cases("""
=graph('t = Transpose<perm = [0, 2, 1, 3]>(x) y = Reshape(t, s)', '2,1,8,4') | =graph('y =
  Reshape(x, s)', '2,1,8,4')
=graph('t = Transpose<perm = [1, 0, 2, 3]>(x) y = Reshape(t, s)', 'N,1,8,4') | =graph('y =
  Reshape(x, s)', 'N,1,8,4')
=graph('t = Transpose<perm = [2, 1, 0, 3]>(x) y = Reshape(t, s)', '1,1,8,4') | =graph('y =
  Reshape(x, s)', '1,1,8,4')
=graph('t = Transpose(x) y = Reshape(t, s)', '1,1,8,1') | =graph('y = Reshape(x, s)',
  '1,1,8,1')
moves: =graph('t = Transpose<perm = [0, 2, 1, 3]>(x) y = Reshape(t, s)', '2,3,8,4', (-1, 4))
unknown: =graph('t = Transpose<perm = [0, 2, 1, 3]>(x) y = Reshape(t, s)', '2,N,8,4', (-1, 4))
copies: =graph('t = Transpose<perm = [0, 2, 1, 3]>(x) y = Reshape(t, s)', '2,1,8,4', (2, 0, 4))
copies-first: =graph('t = Transpose<perm = [1, 0, 2, 3]>(x) y = Reshape(t, s)', '2,1,8,4', (0,
  -1))
leaves computed targets alone: =graph('t = Transpose(x) u = Abs(s) y = Reshape(t, u)', '1,8',
  (2, 4))
""")
