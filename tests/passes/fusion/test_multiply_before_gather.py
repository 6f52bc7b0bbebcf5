import numpy as np

from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.fusion.multiply_before_gather import MultiplyBeforeGather
from onnx_passes.testing import parse
from tests.tables import cases_in, each_of

INPUTS = "int64[B,2] k, float[B,2,4] h"
ROWS = "i = Reshape(k, flat) x = Reshape(h, columns)"
PLACES = "i = Reshape(k, column) x = Reshape(h, columns)"
TAIL = "z = Relu(p) y = Reshape(z, whole)"


def model(body, *, inputs=INPUTS, matrices=3, opset=18):
    table = ", ".join(str(n % 7 - 3) for n in range(matrices * 20))
    made = parse(f"""<ir_version: 10, opset_import: ["" : {opset}]>
      g ({inputs}) => (float[?,?] y)
      <float[{matrices},5,4] w = {{{table}}}, int64[1] flat = {{-1}},
       int64[2] column = {{-1, 1}}, int64[3] columns = {{-1, 4, 1}},
       int64[2] whole = {{-1, 5}}, int64[2] beside = {{4, 15}}, int64[2] rows = {{-1, 4}},
       int64[3] parted = {{-1, 3, 5}}, int64[1] one = {{1}},
       int64[1] two = {{2}}> {{ {body} }}""")
    for name in [name for name, value in made.graph.initializers.items() if not value.uses()]:
        made.graph.initializers.pop(name)
    ShapeInference()(made)
    return made


@each_of(
    "before, places",
    (f"{ROWS} c = Gather(w, i)", f"{ROWS} j = Unsqueeze(i, one)"),
    (f"{PLACES} c = GatherND(w, i)", PLACES.replace("i =", "j =")),
)
def test_fires(before, places, rewrites):
    after = f"""{places} t = Transpose<perm = [2, 0, 1]>(w) m = Reshape(t, beside)
      r = Reshape(x, rows) a = MatMul(r, m) q = Reshape(a, parted)
      g = GatherND<batch_dims = 1>(q, j) p = Unsqueeze(g, two) {TAIL}"""
    feeds = {"k": np.array([[0, 2], [-1, 1]]), "h": np.ones((2, 2, 4), np.float32)}
    rewrites(model(f"{before} p = MatMul(c, x) {TAIL}"), model(after), feeds=[feeds])


GATHER = f"c = Gather(w, i) p = MatMul(c, x) {TAIL}"


test_cases = cases_in(model)("""
many-matrices: =model(f'{ROWS} {GATHER}', matrices=5)
one-row: =model(GATHER, inputs='int64[1] i, float[1,4,1] x')
other-rows: =model(GATHER, inputs='int64[A] i, float[B,4,1] x')
two-columns: =model(GATHER, inputs='int64[B] i, float[B,4,2] x')
old-opset: =model(f'{ROWS} {GATHER}', opset=12)
not-a-constant: =model(f"{ROWS} v = Identity(w) {GATHER.replace('(w', '(v')}")
another-reader: =model(f'{ROWS} c = Gather(w, i) p = MatMul(c, x) n = ReduceMax<keepdims=0>(c)
  z = Add(p, n) y = Reshape(z, whole)')
""")


def test_many_matrices_pay_for_many_rows(leaves_alone):
    made = model(GATHER, inputs="int64[8] i, float[8,4,1] x", matrices=8)
    assert MultiplyBeforeGather()(made).modified
    leaves_alone(model(GATHER, inputs="int64[7] i, float[7,4,1] x", matrices=8))
