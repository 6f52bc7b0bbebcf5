from onnx_passes.passes.fusion.fuse_transpose_reduce import REDUCTIONS
from tests.tables import each_of, pass_cases

HEAD = "(float[2,3,N,4] x) => (float[?,?] y)"


def graph(body, head=HEAD, **axes):
    fixed = ", ".join(
        f"int64[{len(v)}] {k} = {{{', '.join(map(str, v))}}}" for k, v in axes.items()
    )
    return f"{head} <{fixed}> {{ {body} }}"


@each_of("name", *REDUCTIONS)
def test_fires(name, rewrites):
    body = f"t = Transpose<perm = [0, 2, 3, 1]>(x) y = {name}<keepdims = 0>(t, a)"
    rewrites(graph(body, a=[-2, 1]), graph(f"y = {name}<keepdims = 0>(x, a)", a=[2, 3]))


test_cases = pass_cases("""
axes are attributes in older opsets: =graph('t = Transpose<perm = [0, 2, 3, 1]>(x) y =
  ReduceSum<keepdims = 0, axes = [1, 2]>(t)', f'<ir_version: 7, opset_import: ["" : 12]> g
  {HEAD}') | =graph('y = ReduceSum<keepdims = 0, axes = [2, 3]>(x)', f'<ir_version: 7,
  opset_import: ["" : 12]> g {HEAD}')
keepdims: (float[2,3,4,2] x) => (float[?,?,?,?] y) <int64[2] a = {1, 2}, int64[2] b = {0, 1}> {
  t = Transpose<perm = [0, 2, 3, 1]>(x) y = ReduceSum(t, a) }
order: (float[2,3,4,2] x) => (float[?,?] y) <int64[2] a = {1, 2}, int64[2] b = {0, 1}> { t =
  Transpose<perm = [0, 2, 3, 1]>(x) y = ReduceSum<keepdims = 0>(t, b) }
left-out: (float[2,3,4,2] x) => (float y) <int64[2] a = {1, 2}, int64[2] b = {0, 1}> { t =
  Transpose<perm = [0, 2, 3, 1]>(x) y = ReduceSum<keepdims = 0>(t) }
read: (float[2,3,4,2] x) => (float[?,?,?,?] y) <int64[2] a = {1, 2}, int64[2] b = {0, 1}> { t =
  Transpose<perm = [0, 2, 3, 1]>(x) u = ReduceSum<keepdims = 0>(t, a) v = Relu(t) y = MatMul(u,
  v) }
""")
