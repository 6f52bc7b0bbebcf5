from onnx_passes.passes.fusion.fuse_reduce_squeeze import REDUCTIONS
from tests.tables import each_of, each_row

HEAD = "(float[2,N,4] x) => (float[?,?] y)"


def graph(body, head=HEAD, **axes):
    fixed = ", ".join(
        f"int64[{len(v)}] {k} = {{{', '.join(map(str, v))}}}" for k, v in axes.items()
    )
    return f"{head} <{fixed}> {{ {body} }}"


@each_of("name", *[n for n in REDUCTIONS if n.startswith("Reduce")])
def test_fires(name, rewrites):
    before = graph(f"t = {name}<keepdims = 1>(x, a) y = Squeeze(t, b)", a=[1], b=[-2])
    rewrites(before, graph(f"y = {name}<keepdims = 0>(x, a)", a=[1]))
    head = HEAD.replace("?,?", "?,?,?")
    before = graph(f"t = {name}<keepdims = 0>(x, a) y = Unsqueeze(t, a)", head, a=[0, 1])
    rewrites(before, graph(f"y = {name}<keepdims = 1>(x, a)", head, a=[0, 1]))


@each_of("name", "ArgMax", "ArgMin")
def test_arguments_have_one_axis(name, rewrites):
    head = HEAD.replace("(float[?,?]", "(int64[?,?]")
    before = graph(f"t = {name}<axis = 2>(x) y = Squeeze(t, b)", head, b=[2])
    rewrites(before, graph(f"y = {name}<axis = 2, keepdims = 0>(x)", head))
    before = graph(f"t = {name}(x) y = Squeeze(t, b)", head, b=[0])
    rewrites(before, graph(f"y = {name}<keepdims = 0>(x)", head))


def test_axes_are_attributes_in_older_opsets(rewrites):
    head = f'<ir_version: 7, opset_import: ["" : 12]> g {HEAD}'
    before = graph("t = ReduceSum<axes = [1]>(x) y = Squeeze<axes = [1]>(t)", head)
    rewrites(before, graph("y = ReduceSum<axes = [1], keepdims = 0>(x)", head))


@each_row("""body
read: t = ReduceSum(x, a) u = Squeeze(t, a) y = Mul(u, u) z = Abs(t)
fewer: t = ReduceSum(x, c) u = Squeeze(t, a) y = Unsqueeze(u, a)
left-out: t = ReduceSum(x, a) y = Squeeze(t)
other: t = ReduceSum<keepdims = 0>(x, a) u = Unsqueeze(t, b) y = Squeeze(u, b)
""")
def test_leaves_alone(body, leaves_alone):
    head = "(float[2,1,4] x) => (float[?,?] y)"
    if "z =" in body:
        head = head.replace("y)", "y, float[?,?,?] z)")
    leaves_alone(graph(body, head, a=[1], b=[0], c=[0, 1]))


@each_of("name", "ArgMax", "ArgMin")
def test_an_argument_of_a_scalar_has_no_axis_to_keep(name, leaves_alone):
    head = "(float x) => (int64[?] y)"
    leaves_alone(graph(f"t = {name}<keepdims = 0>(x) y = Unsqueeze(t, a)", head, a=[0]))


def test_axes_from_the_end_of_an_unknown_rank(rewrites):
    text = """<ir_version: 10, opset_import: ["" : 20, "f" : 1]>
      g (float[N,2] x) => (float[?] y) { y = f.total(x) }
      <domain: "f", opset_import: ["" : 20]> total (x) => (y) {
      a = Constant<value_ints = [-1]>() t = ReduceSum(x, a) y = Squeeze(t, a) }"""
    (function,) = rewrites(text).functions.values()
    assert [node.op_type for node in function if node.inputs] == ["ReduceSum"]
