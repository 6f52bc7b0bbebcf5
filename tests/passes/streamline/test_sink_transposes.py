from onnx_passes import testing
from onnx_passes.passes.streamline.sink_transposes import SinkTransposes
from tests.tables import each_of, each_row, inferred

HEAD = """(float[2,3,4] x, float[2,3,4] u, float[4,2,3] k) => (float[A,B,C] y) <float s = {2},
float[2,1] c = {1, 2}, float[1,2,3] d = {1, 2, 3, 4, 5, 6},
int64[6] p = {0, 1, 2, 0, 0, 1}, int64[2] q = {1, 2}, int64[1] a = {-3}> """


def typed(body):
    return inferred(HEAD + "{ " + body + " }")


@each_row("""body
- t = Transpose<perm = [2, 0, 1]>(x) y = Relu(t)
- t = Transpose<perm = [2, 0, 1]>(x) y = Add(t, c)
- t = Transpose<perm = [2, 0, 1]>(x) y = Sub(d, t)
- t = Transpose<perm = [2, 0, 1]>(x) y = Mul(t, s)
- t = Transpose<perm = [2, 0, 1]>(x) y = Clip(t, s)
- t = Transpose<perm = [2, 0, 1]>(x) r = Transpose<perm = [2, 0, 1]>(u) y = Div(t, r)
- t = Transpose(x) y = Gelu(t)
- t = Transpose<perm = [2, 0, 1]>(x) y = Pad(t, p)
- t = Transpose<perm = [2, 0, 1]>(x) y = Pad(t, q, s, a)
""")
def test_fires(body, applied):
    model = typed(body)
    assert applied(model)
    kinds = [node.op_type for node in model.graph if node.op_type != "Constant"]
    assert kinds[-1] == "Transpose"
    assert kinds.count("Transpose") == 1
    assert not SinkTransposes()(model).modified


@each_row("""body
- t = Transpose<perm = [2, 0, 1]>(x) y = Add(t, k)
- t = Transpose<perm = [2, 0, 1]>(x) y = Softmax(t)
""")
def test_leaves_alone(body):
    testing.assert_leaves_alone(SinkTransposes(), typed(body))


THRESHOLDS = """(float[2,3,4] x) => (float[A,B,C] y) <float one = {1}, float s = {0.5},
float z = {0}, float b = {3}, float[3] c = {0.5, 1, 2}, float[2] t = {0.5, 1.5},
float[1,3,1,2] k = {0, 1, -1, 2, 0.5, 0.75}, float[3,2] l = {0, 1, -1, 2, 0.5, 0.75}>
{ t1 = Transpose<perm = [0, 2, 1]>(x) """


@each_row("""body
- y = o.MultiThreshold(t1, t, one)
- y = o.MultiThreshold(t1, l, one)
- y = q.Quant(t1, s, z, b)
- y = q.Quant(t1, c, z, b)
- y = o.Quant(t1, c, z, b)
- y = q.BipolarQuant(t1, c)
""")
def test_moves_past_quantisers_and_thresholds(body, text, applied):
    model = testing.parse(text(THRESHOLDS + body + " }"))
    assert applied(model)
    assert list(model.graph)[-1].op_type == "Transpose"


BLOCKS = """(float[2,8,2,3] x) => (float[A,B,C,D] y) <float one = {1}, float s = {0.5},
float z = {0}, float b = {3}, float[2,1,1] c = {0.5, 2}, float[2] t = {0.5, 1.5},
float[4,1] v = {1, 2, 3, 4}, float[2,1,1,2] k = {0, 1, -1, 2}> """


@each_of("mode", "DCR", "CRD")
@each_row("""end
- o.MultiThreshold(d, t, one)
- o.MultiThreshold(d, k, one)
- q.Quant(d, s, z, b)
- q.Quant(d, c, z, b)
""")
def test_moves_blocks_past_quantisers_and_thresholds(mode, end, text, applied):
    model = testing.parse(
        text(BLOCKS + f'{{ d = DepthToSpace<blocksize = 2, mode = "{mode}">(x) y = {end} }}')
    )
    assert applied(model)
    assert list(model.graph)[-1].op_type == "DepthToSpace"


@each_of("end", "Relu(d)", "Mul(d, s)", "q.Quant(d, v, z, b)")
def test_leaves_blocks_alone(end, text):
    model = inferred(text(BLOCKS + f"{{ d = DepthToSpace<blocksize = 2>(x) y = {end} }}"))
    testing.assert_leaves_alone(SinkTransposes(), model)


def test_leaves_thresholds_of_more_axes_alone(text):
    body = "u = Transpose<perm = [1, 0]>(r) y = o.MultiThreshold(u, k, one) }"
    graph = THRESHOLDS.replace("float[2,3,4] x", "float[2,3,4] x, float[4,3] r") + body
    testing.assert_leaves_alone(SinkTransposes(), inferred(text(graph)))
