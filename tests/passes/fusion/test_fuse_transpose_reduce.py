import pytest

from onnx_passes.passes.fusion.fuse_transpose_reduce import REDUCTIONS
from tests.tables import cases

HEAD = "(float[2,3,N,4] x) => (float[?,?] y)"


def graph(body, head=HEAD, **axes):
    fixed = ", ".join(
        f"int64[{len(v)}] {k} = {{{', '.join(map(str, v))}}}" for k, v in axes.items()
    )
    return f"{head} <{fixed}> {{ {body} }}"


@pytest.mark.parametrize("name", REDUCTIONS)
def test_fires(name, rewrites):
    body = f"t = Transpose<perm = [0, 2, 3, 1]>(x) y = {name}<keepdims = 0>(t, a)"
    after = graph(f"y = {name}<keepdims = 0>(x, a)", a=[2, 3])
    rewrites(graph(body, a=[-2, 1]), after)


def test_axes_are_attributes_in_older_opsets(rewrites):
    head = f'<ir_version: 7, opset_import: ["" : 12]> g {HEAD}'
    body = """t = Transpose<perm = [0, 2, 3, 1]>(x)
      y = ReduceSum<keepdims = 0, axes = [1, 2]>(t)"""
    after = graph("y = ReduceSum<keepdims = 0, axes = [2, 3]>(x)", head)
    rewrites(graph(body, head), after)


@pytest.mark.parametrize(
    ("body", "dims"),
    cases("""
keepdims: y = ReduceSum(t, a) | ?,?,?,?
order: y = ReduceSum<keepdims = 0>(t, b) | ?,?
left-out: y = ReduceSum<keepdims = 0>(t) | =''
read: u = ReduceSum<keepdims = 0>(t, a) v = Relu(t) y = MatMul(u, v) | ?,?,?,?
"""),
)
def test_leaves_alone(body, dims, leaves_alone):
    head = HEAD.replace("[?,?]", f"[{dims}]" if dims else "").replace("2,3,N,4", "2,3,4,2")
    text = graph(f"t = Transpose<perm = [0, 2, 3, 1]>(x) {body}", head, a=[1, 2], b=[0, 1])
    leaves_alone(text)
