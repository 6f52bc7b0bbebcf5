import pytest

from tests.tables import each_of, each_row, inferred

WEIGHTS = "float[4] s = {1, 2, 3, 4}, float[4] b = {0, 1, 0, 1}"


def model(body, *, inputs="float[B,T,4] x, float[B,T,4] y", opset=18, weights=WEIGHTS):
    return inferred(f"""<ir_version: 10, opset_import: ["" : {opset}]>
      g ({inputs}) => (float[B,T,4] z, float[B,T,4] t) <{weights}> {{ {body} }}""")


@each_of(
    "opset, reader",
    pytest.param(18, "z = LayerNormalization<axis = -1>(t, s, b)", id="layer"),
    pytest.param(18, "z = LayerNormalization<axis = -1>(t, s) u = Relu(b)", id="no-bias"),
    pytest.param(23, "z = RMSNormalization<axis = -1>(t, s) u = Relu(b)", id="squares"),
)
def test_fires(opset, reader, rewrites):
    before, after = (
        model(f"t = {operator}(x, y) {reader}", opset=opset) for operator in ("Add", "Sum")
    )
    rewrites(before, after)


NORMAL = "z = LayerNormalization<axis = -1>(t, s, b)"


@each_row("""body | changes
another-reader: t = Add(x, y) z = Relu(t) u = Mul(s, b) | ={}
bias: t = Add(x, b) z = LayerNormalization<axis = -1>(t, s, b) | ={}
not-what-is-normalized: t = Add(x, y) z = LayerNormalization<axis = -1>(x, s, t)
  | ={'inputs': 'float[4] y, float[B,T,4] x'}
another-rank: =f't = Add(x, y) {NORMAL}' | ={'inputs': 'float[B,T,4] x, float[T,4] y'}
double: =f't = Add(x, y) {NORMAL}'
  | ={'inputs': 'double[B,T,4] x, double[B,T,4] y', 'weights': WEIGHTS.replace('float',
    'double')}
""")
def test_leaves_alone(body, changes, leaves_alone):
    leaves_alone(model(body, **changes))
