import numpy as np
import onnx_ir as ir

from onnx_passes.testing import parse
from tests.tables import each_of, each_row, kinds, pass_cases

RNG = np.random.default_rng(0)


def model(layer, weights, channels, shape, *, bias=True, attributes="", more="y = Relu(n)"):
    sizes = {**dict.fromkeys("sbmvc" if bias else "sbmv", (channels,)), "w": weights}
    dims = ",".join(map(str, shape))
    return parse(f"""(float[{dims}] x) => (float[{",".join("?" * len(shape))}] y)
      <{", ".join(initializer(name, size) for name, size in sizes.items())}> {{
      t = {layer}{attributes}(x, w{", c" if bias else ""})
      n = BatchNormalization(t, s, b, m, v) {more} }}""")


def initializer(name, size):
    numbers = ", ".join(map(repr, values(name, size)))
    return f"float[{','.join(map(str, size))}] {name} = {{{numbers}}}"


def values(name, size):
    numbers = RNG.standard_normal(int(np.prod(size))).astype(np.float32)
    return [float(abs(n) if name == "v" else n) for n in numbers]


@each_row("""layer | weights | channels | shape | attributes
conv: Conv | =(4, 3, 2, 2) | =4 | =(2, 3, 5, 5) | =''
depthwise: Conv | =(4, 1, 2, 2) | =4 | =(2, 4, 5, 5) | <group = 4>
one-dimension: Conv | =(4, 3, 2) | =4 | =(2, 3, 5) | <pads = [1, 0]>
transposed: ConvTranspose | =(4, 3, 2, 2) | =3 | =(2, 4, 3, 3) | =''
transposed-groups: ConvTranspose | =(4, 3, 2, 2) | =6 | =(2, 4, 3, 3) | <group = 2>
gemm: Gemm | =(3, 4) | =4 | =(2, 3) | =''
gemm-transposed: Gemm | =(4, 3) | =4 | =(2, 3) | <transB = 1>
""")
@each_of("bias", True, False)
def test_fires(layer, weights, channels, shape, attributes, bias, rewrites):
    made = model(layer, weights, channels, shape, bias=bias, attributes=attributes)
    assert kinds(rewrites(ir.to_onnx_text(made))) == [layer, "Relu"]


test_cases = pass_cases("""
layer-is-read-elsewhere: =model('Conv', (4, 3, 2, 2), 4, (2, 3, 5, 5), more='y = Add(n, t)')
alpha: =model('Gemm', (3, 4), 4, (2, 3), attributes='<alpha = 2.0>')
beta: =model('Gemm', (3, 4), 4, (2, 3), attributes='<beta = 0.5>')
trans-a: =model('Gemm', (3, 4), 4, (3, 2), attributes='<transA = 1>')
""")


def test_leaves_negative_variances_alone(leaves_alone):
    made = model("Conv", (4, 3, 2, 2), 4, (2, 3, 5, 5))
    made.graph.initializers["v"].const_value = ir.tensor(np.full(4, -1, np.float32), name="v")
    leaves_alone(ir.to_onnx_text(made))


def test_an_epsilon_is_kept(rewrites):
    text = """(float[1,1,1,1] x) => (float[1,1,1,1] y)
      <float[1,1,1,1] w = {2}, float[1] s = {3},
      float[1] b = {1}, float[1] m = {0}, float[1] v = {0}> {
      t = Conv(x, w) n = BatchNormalization<epsilon = 0.25>(t, s, b, m, v) y = Relu(n) }"""
    after = rewrites(text)
    weights = [
        n.attributes["value"].as_tensor().numpy().item()
        for n in after.graph
        if n.op_type == "Constant"
    ]
    assert weights == [12, 1]
    assert parse(text) is not None
