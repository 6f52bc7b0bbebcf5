"""Thresholds are held against the chain on all floats around them."""

import numpy as np

from onnx_passes import testing
from onnx_passes.passes.quantised._chains import Steps, chain_to, find_table
from onnx_passes.passes.quantised._quantisers import quantiser_of
from onnx_passes.passes.quantised.infer_thresholds import InferThresholds
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from tests.tables import cases_in, each_of, each_row, inferred, kinds, qonnx

QUANT = 'y = q.Quant<signed = {}, narrow = {}, rounding_mode = "{}">(t, s, z, b)'


def quantised(
    text, body, shape="N,3", scale=0.3, zero=0, bits=4, signed=1, mode="ROUND", more=""
):
    call = QUANT.format(signed, 0, mode)
    return text(f"""(float[{shape}] x) => (float[{shape}] y)
        <float[{shape}] t, float[{shape}] u, float[{shape}] v,
        float s = {{{scale}}}, float z = {{{zero}}}, float b = {{{bits}}}{more}> {{ {body}
        {call} }}""")


@each_row("""body | shape | more
- t = Identity(x) | N,3 | =''
- t = Relu(x) | N,3 | =''
- u = Mul(x, c) t = Add(u, d) | N,3 | , float[3] c = {2, -0.7, 1e-3}, float[3] d = {1, 0, -2}
- u = Sub(c, x) t = Div(u, d) | N,3 | , float[3] c = {2, -0.7, 1e-3}, float d = {3}
- t = BatchNormalization(x, c, d, d, e) | 2,3,4 | , float[3] c = {2, -0.7, 1}, float[3] d = {1,
  0, -2}, float[3] e = {1, 0.3, 7}
- u = Clip(x, c, d) t = LeakyRelu<alpha = 0.1>(u) | N,3 | , float c = {-3}, float d = {2}
- u = Max(x, c) t = Min(u, d) | N,3 | , float[3] c = {-1, 0, 1}, float d = {2}
""")
@each_of("mode", "ROUND", "floor", "HALF_DOWN")
def test_chains(body, shape, more, mode, rewrites, text):
    if "Sub(c" in body:
        body = "v = Neg(x) u = Add(c, v) t = Div(u, d)"
    model = rewrites(quantised(text, body, shape, mode=mode, more=more))
    assert kinds(model)[0] == "MultiThreshold"
    assert set(kinds(model)) <= {"MultiThreshold", "Add", "Mul"}


@each_of("kind", "Sigmoid", "Tanh", "Elu")
def test_activations(kind, rewrites, text):
    model = rewrites(quantised(text, f"t = {kind}(x)", scale=0.05, bits=5))
    assert "MultiThreshold" in kinds(model)


@each_of("call, steps", ("Round", 4), ("Ceil", 4), ("Floor", 4))
def test_rounding_of_a_clip_that_is_no_integer(call, steps, rewrites, text):
    model = rewrites(
        text(f"""(float[N] x) => (float[N] y)
            <float[N] t, float a = {{-1.5}}, float b = {{2.3}}>
            {{ t = Clip(x, a, b) y = {call}(t) }}""")
    )
    node = next(n for n in model.graph if n.op_type == "MultiThreshold")
    assert node.inputs[1].producer().attributes["value"].as_tensor().shape[0] in (
        steps,
        steps - 1,
    )


def own(graph, inputs="float[N] x"):
    return qonnx(f"({inputs}) => (float[N] y) {graph}")


test_cases = cases_in(own)("""
no-levels: { y = Round(x) }
double: (double[N] x) => (double[N] y) { y = Sign(x) }
many-levels: <float s = {0.1}, float z = {0}, float b = {16}> { y = q.Quant(x, s, z, b) }
computed-scale: =own('{ y = q.BipolarQuant(x, s) }', 'float[N] x, float s')
falling: <float c = {0}, float a = {1}, float b = {2}, bool[N] t> { t = Less(x, c)
  y = Where(t, a, b) }
thresholds: <float[1] t = {1}, float w = {1}> { y = o.MultiThreshold(x, t, w) }
""")


def test_a_quantiser_that_always_gives_one_level(rewrites, text):
    graph = """(float[N] x) => (float[N] y) <float[N] t, float s = {0.1}>
    { t = Relu(x) y = q.BipolarQuant(t, s) }"""
    assert "MultiThreshold" in kinds(rewrites(text(graph)))


@each_of("compare", "GreaterOrEqual", "Greater")
def test_one_number_or_another(compare, rewrites, text):
    graph = f"""(float[N,2] x) => (float[N,2] y) <float c = {{0.3}}, float a = {{1}},
    float b = {{-1}}, float[2] f = {{2, -3}}, float[N,2] m, bool[N,2] t>
    {{ m = Mul(x, f) t = {compare}(m, c) y = Where(t, a, b) }}"""
    assert kinds(rewrites(text(graph))) == ["MultiThreshold", "Add"]


def test_a_step_of_two_is_one_threshold(rewrites, text):
    graph = "(float[N] x) => (float[N] y) <float s = {1}> { y = q.BipolarQuant(x, s) }"
    node = next(n for n in rewrites(text(graph)).graph if n.op_type == "MultiThreshold")
    numbers = [v.producer().attributes["value"].as_tensor().numpy() for v in node.inputs[1:]]
    assert [number.tolist() for number in numbers] == [[0.0], 2.0]


def test_no_threshold_is_misplaced(text):
    """40 quantisers of 4 bits on 32 channels each: 19,200 thresholds, on all floats beside."""
    draw = np.random.default_rng(0)
    placed = misplaced = 0
    for number in range(40):
        factors = draw.normal(0, 1, 32).astype(np.float32)
        terms = draw.normal(0, 1, 32).astype(np.float32)
        mode = ("ROUND", "FLOOR", "CEIL", "HALF_UP", "DOWN")[number % 5]
        given = quantised(
            text,
            "u = Mul(x, c) t = Add(u, d)",
            "N,32",
            scale=float(np.float32(draw.uniform(0.01, 2))),
            zero=number % 3,
            mode=mode,
            more=f", float[32] c = {{{', '.join(map(repr, factors.tolist()))}}}"
            f", float[32] d = {{{', '.join(map(repr, terms.tolist()))}}}",
        )
        node = next(n for n in testing.parse(given).graph if n.op_type == "Quant")
        found = quantiser_of(node)
        steps = Steps(chain_to(node, 20))

        def level(results, found=found):
            return np.rint(results.astype(np.float64) / found.scale + found.zero)

        table = find_table(steps, level, 255)
        assert table is not None
        for k in range(table.thresholds.shape[-1]):
            at = table.thresholds[0, :, k]
            weights = table.weights[0, :, k]
            below = np.nextafter(at, np.float32(-np.inf))
            jump = level(steps.of(at[None, None])) - level(steps.of(below[None, None]))
            # Several thresholds may stand at one float, where the chain jumps by as many.
            same = (table.thresholds[0] == at[:, None]) * table.weights[0]
            there = weights != 0
            placed += int(there.sum())
            misplaced += int((jump[0, 0] != same.sum(-1))[there].sum())
    assert placed == 40 * 32 * 15
    assert misplaced == 0


def test_every_float_near_zero_has_its_level(text):
    given = quantised(text, "t = Mul(x, c)", "N", scale=0.1, more=", float c = {0.37}")
    before, after = testing.parse(given), testing.parse(given)
    assert InferThresholds()(after).modified
    bits = np.arange(0x3D000000, 0x40800000, 97, dtype=np.int64).astype(np.int32)
    values = np.concatenate([bits.view(np.float32), -bits.view(np.float32)])
    results = []
    for model in (before, after):
        with OnnxRuntimeEngine().prepare(model) as session:
            results.append(session.run({"x": values})["y"])
    np.testing.assert_array_equal(*results)


MISSING = """(float[N] x) => (float[N] y, bool[N] m) <float[N] s, float[N] t, float zero = {0},
    float two = {2}, float low = {-3}, float high = {3}> { BODY }"""


test_what_may_be_nan = cases_in(lambda body: inferred(MISSING.replace("BODY", body)))("""
m = IsNaN(x) y = Sign(x)
m = IsNaN(x) s = Mul(x, two) y = Sign(s)
y = Sign(x) m = IsNaN(y)
m = IsNaN(x) s = Clip(x, low, high) y = Round(s)
m = IsNaN(x) s = Exp(x) y = Sign(s)
""")


def test_what_is_put_in_the_place_of_nan_has_thresholds(applied):
    body = "m = IsNaN(x) s = Where(m, zero, x) y = Sign(s)"
    assert "MultiThreshold" in kinds(applied(MISSING.replace("BODY", body)))
