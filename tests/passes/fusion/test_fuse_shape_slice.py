import numpy as np

from tests.tables import cases_in, each_row

HEAD = "(float[N,3,M,5] x) => (int64[?] y)"
OLD = '<ir_version: 7, opset_import: ["" : 14]> g '


def graph(body, **ints):
    fixed = ", ".join(
        f"int64 {k} = {{{v}}}"
        if isinstance(v, int)
        else f"int64[{len(v)}] {k} = {{{', '.join(map(str, v))}}}"
        for k, v in ints.items()
    )
    return f"{HEAD} <{fixed}> {{ {body} }}"


@each_row("""body | ints | after
- t = Gather(s, i) y = Unsqueeze(t, a) | ={'i': 2, 'a': [0]} | <start = 2, end = 3>
- t = Gather(s, i) y = Unsqueeze(t, a) | ={'i': 0, 'a': [-1]} | <end = 1>
- t = Gather(s, i) y = Unsqueeze(t, a) | ={'i': -1, 'a': [0]} | <start = 3>
- t = Gather(s, i) y = Unsqueeze(t, a) | ={'i': -2, 'a': [0]} | <start = 2, end = 3>
- y = Gather(s, i) | ={'i': [1, 2]} | <start = 1, end = 3>
- y = Gather(s, i) | ={'i': [-2, -1]} | <start = 2>
- y = Slice(s, i, j) | ={'i': [1], 'j': [3]} | <start = 1, end = 3>
- y = Slice(s, i, j, a) | ={'i': [-3], 'j': [-1], 'a': [0]} | <start = 1, end = 3>
- y = Slice(s, i, j) | ={'i': [2], 'j': [2 ** 63 - 1]} | <start = 2>
- y = Slice(s, i, j) | ={'i': [-2 ** 62], 'j': [2]} | <end = 2>
- y = Slice(s, i, j) | ={'i': [3], 'j': [1]} | <start = 3, end = 1>
- y = Slice(s, i, j) | ={'i': [-5], 'j': [2]} | <end = 2>
- y = Slice(s, i, j) | ={'i': [1], 'j': [-6]} | <start = 1, end = 0>
- y = Slice(s, i, j) | ={'i': [-9], 'j': [9]} | =''
""")
def test_fires(body, ints, after, rewrites):
    feeds = [{"x": np.zeros(shape, np.float32)} for shape in ((2, 3, 4, 5), (0, 3, 1, 5))]
    before = graph(f"s = Shape(x) {body}", **ints)
    rewrites(before, graph(f"y = Shape{after}(x)"), feeds=feeds)


def test_from_the_end_where_the_rank_is_not_known(rewrites):
    before = "(float[N] w, int64[R] r) => (int64[?] y) <int64[2] i = {-2, -1}> { %s }"
    body = "x = Reshape(w, r) s = Shape(x) y = Gather(s, i)"
    rewrites(before % body, before % "x = Reshape(w, r) y = Shape<start = -2>(x)")


@each_row("""body | after
- a = Shape<end = 1>(x) b = Shape<start = 1, end = 3>(x) | <end = 3>
- a = Shape<start = 1, end = 2>(x) b = Shape<start = 2>(x) | <start = 1>
""")
def test_joins_parts_that_meet(body, after, rewrites):
    rewrites(graph(f"{body} y = Concat<axis = 0>(a, b)"), graph(f"y = Shape{after}(x)"))
    more = f"c = Shape{after}(x) y = Concat<axis = 0>(n, c, n)"
    before = graph(f"{body} y = Concat<axis = 0>(n, a, b, n)", n=[7])
    rewrites(before, graph(more, n=[7]))


test_cases = cases_in(graph)("""
a-part: =graph('s = Shape<start = 1>(x) y = Gather(s, i)', i=[0])
gap: =graph('s = Shape(x) y = Gather(s, i)', i=[0, 2])
around: =graph('s = Shape(x) y = Gather(s, i)', i=[-1, 0])
scalar: =graph('s = Shape(x) t = Gather(s, i) y = Add(t, t)', i=1).replace('int64[?]', 'int64')
computed: =graph('s = Shape(x) j = Abs(i) y = Gather(s, j)', i=[1])
step: =graph('s = Shape(x) y = Slice(s, i, j, a, k)', i=[0], j=[4], a=[0], k=[2])
parts-apart: a = Shape<end = 1>(x) b = Shape<start = 2>(x) y = Concat<axis = 0>(a, b)
part-is-read: a = Shape<end = 1>(x) b = Shape<start = 1>(x) c = Abs(a)
  y = Concat<axis = 0>(a, b, c)
before-opset-15: =OLD + graph('s = Shape(x) y = Gather(s, i)', i=[1])
""")
