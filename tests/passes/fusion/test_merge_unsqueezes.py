import pytest

from onnx_passes.passes.fusion.merge_unsqueezes import MergeUnsqueezes


def graph(body, before, after, **axes):
    fixed = ", ".join(
        f"int64[{len(v)}] {k} = {{{', '.join(map(str, v))}}}" for k, v in axes.items()
    )
    return f"(float[{before}] x) => (float[{after}] y) <{fixed}> {{ {body} }}"


@pytest.mark.parametrize(
    ("operator", "shape", "first", "second", "both"),
    [
        ("Unsqueeze", "2,N", [0], [2], [0, 2]),
        ("Unsqueeze", "2,N", [0], [0], [0, 1]),
        ("Unsqueeze", "2,N", [1], [0, 1], [0, 1, 3]),
        ("Unsqueeze", "2,N", [-1], [1], [1, 3]),
        ("Unsqueeze", "2,N", [1, 2], [-1], [1, 2, 4]),
        ("Squeeze", "1,2,1,N", [0], [1], [0, 2]),
        ("Squeeze", "1,2,1,N", [2], [0], [0, 2]),
        ("Squeeze", "1,2,1,N,1", [-1, 0], [-2], [0, 2, 4]),
    ],
)
def test_fires(operator, shape, first, second, both, rewrites):
    dims = ",".join("?" * (len(shape.split(",")) + len(both) * (-1) ** (operator[0] == "S")))
    body = f"t = {operator}(x, a) y = {operator}(t, b)"
    before = graph(body, shape, dims, a=first, b=second)
    rewrites(MergeUnsqueezes(), before, graph(f"y = {operator}(x, c)", shape, dims, c=both))


def test_three_become_one(rewrites):
    body = "t = Unsqueeze(x, a) u = Unsqueeze(t, a) y = Unsqueeze(u, a)"
    after = graph("y = Unsqueeze(x, c)", "2", "?,?,?,?", c=[0, 1, 2])
    rewrites(MergeUnsqueezes(), graph(body, "2", "?,?,?,?", a=[0]), after)


def test_axes_are_attributes_before_opset_13(rewrites):
    head = '<ir_version: 7, opset_import: ["" : 12]> g (float[2] x) => (float[?,?,?] y)'
    before = f"{head} {{ t = Unsqueeze<axes = [0]>(x) y = Unsqueeze<axes = [2]>(t) }}"
    rewrites(MergeUnsqueezes(), before, f"{head} {{ y = Unsqueeze<axes = [0, 2]>(x) }}")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("t = Unsqueeze(x, a) u = Unsqueeze(t, a) y = Add(t, u)", id="read"),
        pytest.param("t = Unsqueeze(x, a) u = Squeeze(t) y = Squeeze(u)", id="left-out"),
        pytest.param("b = Abs(a) t = Unsqueeze(x, b) y = Unsqueeze(t, a)", id="computed"),
    ],
)
def test_leaves_alone(body, leaves_alone):
    dims = "?" if "Squeeze(u)" in body else "?,?,?"
    leaves_alone(MergeUnsqueezes(), graph(body, "2", dims, a=[0]))


def test_looks_into_functions(rewrites):
    text = """<ir_version: 10, opset_import: ["" : 20, "f" : 1]>
      g (float[N] x) => (float[?,?,?] y) { y = f.more(x) }
      <domain: "f", opset_import: ["" : 20]> more (x) => (y) {
      a = Constant<value_ints = [1]>() t = Unsqueeze(x, a) y = Unsqueeze(t, a) }"""
    (function,) = rewrites(MergeUnsqueezes(), text).functions.values()
    assert [node.op_type for node in function if node.inputs] == ["Unsqueeze"]


def test_leaves_negative_axes_of_unknown_ranks_alone(leaves_alone):
    text = """<ir_version: 10, opset_import: ["" : 20, "f" : 1]>
      g (float[N] x) => (float[?,?,?] y) { y = f.more(x) }
      <domain: "f", opset_import: ["" : 20]> more (x) => (y) {
      a = Constant<value_ints = [-1]>() t = Unsqueeze(x, a) y = Unsqueeze(t, a) }"""
    leaves_alone(MergeUnsqueezes(), text)
