import numpy as np

from tests.tables import cases_in, each_row

HEAD = "(float[N,M,9] x) => (float[?,?,?] y)"
END = 2**63 - 1


def graph(body, head=HEAD, **ints):
    fixed = ", ".join(
        f"int64[{len(v)}] {k} = {{{', '.join(map(str, v))}}}" for k, v in ints.items()
    )
    return f"{head} <{fixed}> {{ {body} }}"


def two(first, second):
    ints = dict(zip("abcdefgh", [*first, *second], strict=False))
    names = ", ".join("abcd"[: len(first)]), ", ".join("abcdefgh"[len(first) : len(ints)])
    return graph(f"t = Slice(x, {names[0]}) y = Slice(t, {names[1]})", **ints)


def one(*numbers):
    ints = dict(zip("abcd", numbers, strict=False))
    return graph(f"y = Slice(x, {', '.join(ints)})", **ints)


@each_row("""first | second | both
axes: =([1], [END], [0]) | =([2], [5], [1]) | =([1, 2], [END, 5], [0, 1])
steps: =([-3], [-1], [-1]) | =([END], [-END], [0], [-1])
  | =([-3, END], [-1, -END], [2, 0], [1, -1])
same-axis: =([1], [8], [2]) | =([2], [4], [2]) | =([3], [5], [2])
nearer-end: =([1], [3], [2]) | =([1], [END], [-1]) | =([2], [3], [2])
nothing-left: =([1], [3], [2]) | =([5], [7], [2]) | =([6], [3], [2])
no-axes: =([1, 0], [9, 2]) | =([1], [2]) | =([2, 0], [3, 2], [0, 1])
""")  # fmt: skip
def test_fires(first, second, both, rewrites):
    feeds = [
        {"x": np.arange(np.prod(shape), dtype=np.float32).reshape(shape)}
        for shape in ((4, 6, 9), (1, 1, 9), (2, 0, 9))
    ]
    rewrites(two(first, second), one(*both), feeds=feeds)


def test_one_that_only_slices_read_goes_into_all_of_them(rewrites):
    body = """t = Slice(x, a, b, a) u = Slice(t, a, c, c) v = Slice(t, c, b, c)
      y = Concat<axis = 0>(u, v)"""
    model = rewrites(graph(body, a=[0], b=[2], c=[1]))
    assert {node.inputs[0].name for node in model.graph if node.op_type == "Slice"} == {"x"}


test_cases = cases_in(lambda body: graph(body, a=[0], b=[2]))("""
start-from-the-end: =two(([-3], [9], [2]), ([0], [1], [2]))
end-from-the-end: =two(([1], [9], [2]), ([0], [-1], [2]))
step: =two(([1], [9], [2], [2]), ([0], [1], [2]))
read: t = Slice(x, a, b) u = Slice(t, a, b) y = Concat<axis=0>(t, u)
computed: c = Abs(a) t = Slice(x, a, b) y = Slice(t, c, b)
attributes of older opsets are left alone: =graph('t = Slice<axes = [0], starts = [1], ends =
  [3]>(x) y = Slice<axes = [1], starts = [1], ends = [3]>(t)', f'<ir_version: 7, opset_import:
  ["" : 9]> g {HEAD}')
""")
