import pytest

from onnx_passes import testing
from onnx_passes.ops.bodies.operator_bodies import CHANNELS_LAST, QONNX
from onnx_passes.passes.quantised.convert_to_channels_last import ConvertToChannelsLast
from tests.tables import each_row, inferred, pass_cases

MOMENTUM = pytest.approx(0.9)
SIZES = {"x": "2,4,6,5", "u": "2,4,7", "v": "1,4,3,4,5"}
HEAD = """({inputs}) => (float[{outputs}] y) <float[6,4,3,3] w = {{{w}}},
float[4,1,1,2] g = {{1, 2, 3, 4, 5, 6, 7, 8}}, float[2,4,3] n = {{{n}}},
float[6] b = {{1, 2, 3, 4, 5, 6}}, float[4] s = {{1, -2, 3, 0.5}},
float[4] o = {{0, 1, 2, 3}}, float[4] d = {{1, 2, 0.5, 4}}> """


def model_of(body, rank=4):
    return inferred(
        HEAD.format(
            inputs=", ".join(f"float[{sizes}] {name}" for name, sizes in SIZES.items()),
            outputs=",".join("ABCDE"[:rank]),
            w=", ".join(str(i % 7 - 3) for i in range(216)),
            n=", ".join(str(i % 5 - 2) for i in range(24)),
        )
        + "{ "
        + body
        + " }"
    )


@each_row("""body | rank | told
- y = Conv(x, w) | =4 | ={'strides': (1, 1), 'pads': (0, 0, 0, 0), 'group': 1}
- y = Conv<strides = [2, 1], pads = [1, 0, 1, 2]>(x, w, b) | =4 | ={'strides': (2, 1)}
- y = Conv<group = 4, dilations = [1, 2]>(x, g) | =4 | ={'dilations': (1, 2), 'group': 4}
- y = Conv<pads = [1, 1]>(u, n) | =3 | ={'kernel_shape': (3,), 'pads': (1, 1)}
- y = MaxPool<kernel_shape = [2, 2], pads = [1, 1, 1, 1]>(x) | =4 | ={'strides': (1, 1),
  'pads': (1, 1, 1, 1), 'kernel_shape': (2, 2)}
- y = MaxPool<kernel_shape = [3], strides = [2]>(u) | =3 | ={'strides': (2,)}
- y = BatchNormalization(x, s, o, s, d) | =4 | ={'momentum': MOMENTUM}
- y = BatchNormalization<epsilon = 0.25>(u, s, o, s, d) | =3 | ={'epsilon': 0.25}
""")
def test_fires(body, rank, told, applied):
    model = model_of(body, rank)
    assert applied(model)
    (node,) = (n for n in model.graph if n.domain == CHANNELS_LAST)
    found = {a.name: a.value for a in node.attributes.values()}
    assert {name: found[name] for name in told} == told
    assert not ConvertToChannelsLast()(model).modified


test_cases = pass_cases("""
=model_of('y = Conv<auto_pad = "SAME_UPPER">(x, w)', 4)
=model_of('y = MaxPool<kernel_shape = [2, 2], ceil_mode = 1>(x)', 4)
=model_of('y = MaxPool<kernel_shape = [2, 2], dilations = [2, 1]>(x)', 4)
=model_of('y = MaxPool<kernel_shape = [2, 2], pads = [1, 1, 0, 0]>(x)', 4)
=model_of('y = MaxPool<kernel_shape = [2, 2, 2]>(v)', 5)
=model_of('y = BatchNormalization(v, s, o, s, d)', 5)
=model_of('y, a, c = BatchNormalization<training_mode = 1>(x, s, o, s, d)', 4)
=model_of('a, i = MaxPool<kernel_shape = [2, 2]>(x) c = Cast<to = 1>(i) y = Add(a, c)', 4)
""")


def test_truncated_sums_of_windows_change_their_layout(text, applied):
    attributes = "kernel = 2, stride = 1, ibits = 4, obits = 4, signed = 1"
    model = testing.parse(
        text("(float[2,4,6,5] x) => (float[A,B,C,D] y) { ")
        + f"r = Round(x) y = {QONNX}.QuantAvgPool2d<{attributes}>(r) }}"
    )
    assert applied(model)
    (node,) = (n for n in model.graph if n.op_type == "QuantAvgPool2d")
    assert node.attributes.get_string("data_layout") == "NHWC"
    assert node.attributes.get_int("obits") == 4
    assert not ConvertToChannelsLast()(model).modified
