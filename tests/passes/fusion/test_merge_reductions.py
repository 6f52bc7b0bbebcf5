import pytest

from onnx_passes.passes.fusion.merge_reductions import MERGED
from tests.tables import pass_cases

AXES = "int64[1] a = {1}, int64[1] b = {2}, int64[1] l = {-1}, int64[2] ab = {1, 2}"


def graph(body, out="float[?,?,?,?] y", x="float[2,N,4,3] x", more=""):
    return f"({x}) => ({out}) <{AXES}{more}> {{ {body} }}"


@pytest.mark.parametrize("name", MERGED)
def test_fires(name, rewrites):
    before = graph(f"t = {name}(x, a) y = {name}<keepdims = 1>(t, b)")
    rewrites(before, graph(f"y = {name}<keepdims = 1>(x, ab)"))


def test_axes_of_the_smaller_tensor_are_those_of_the_bigger(rewrites):
    before = graph(
        "t = ReduceMean<keepdims = 0>(x, b) y = ReduceMean<keepdims = 0>(t, l)",
        "float[?,?] y",
    )
    after = graph(
        "y = ReduceMean<keepdims = 0>(x, c)", "float[?,?] y", more=", int64[2] c = {2, 3}"
    )
    rewrites(before, after)


def test_axes_are_attributes_in_older_opsets(rewrites):
    head = '<ir_version: 7, opset_import: ["" : 12]> g (float[2,N,4] x) => (float[?] y)'
    before = "t = ReduceSum<axes = [1], keepdims = 0>(x) "
    before += "y = ReduceSum<axes = [-1], keepdims = 0>(t)"
    after = "y = ReduceSum<axes = [1, 2], keepdims = 0>(x)"
    rewrites(f"{head} {{ {before} }}", f"{head} {{ {after} }}")


test_cases = pass_cases(
    """
read: t = ReduceSum(x, a) u = ReduceSum(t, b) y = Mul(u, t)
others: t = ReduceSum(x, a) y = ReduceMax(t, b)
same-axis: t = ReduceSum(x, a) y = ReduceSum(t, a)
all-axes: t = ReduceSum(x) y = ReduceSum(t, a)
keepdims: t = ReduceSum<keepdims = 0>(x, a) u = ReduceSum<keepdims = 1>(t, a)
  y = Unsqueeze(u, b)
integers: k = Cast<to = 7>(x) t = ReduceSum(k, a) u = ReduceSum(t, b) y = Cast<to = 1>(u)
""",
    graph,
)
