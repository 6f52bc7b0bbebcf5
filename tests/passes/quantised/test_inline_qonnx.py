from tests.tables import each_of, pass_cases, qonnx

MODES = ("ROUND", "ceil", "FLOOR", "UP", "DOWN", "HALF_UP", "half_down", "ROUND_TO_ZERO")


@each_of("mode", *MODES)
@each_of("bits, zero, signed", (3, 0, 1), (1, 0, 1), (4, 2, 0))
def test_fires(mode, bits, zero, signed, rewrites, text):
    model = rewrites(
        qonnx(f"""(float[N,3] x) => (float[N,3] y)
            <float s = {{0.5}}, float z = {{{zero}}}, float b = {{{bits}}}> {{
            y = q.Quant<signed = {signed}, narrow = 0, rounding_mode = "{mode}">(x, s, z, b)
            }}""")
    )
    assert "Quant" not in {node.op_type for node in model.graph}


test_cases = pass_cases("""
bipolar: =qonnx('(float[N] x) => (float[N] y) <float s = {0.5}> { y = q.BipolarQuant(x, s) }')
  | >~ GreaterOrEqual Where Mul
leaves computed parameters alone: =qonnx('(float[N] x, float s) => (float[N] y) { y =
  q.BipolarQuant(x, s) }')
a quantiser of no bits is left alone: =qonnx('(float[N] x) => (float[N] y) <float s = {2.0},
  float z = {0.0}, float b = {0.0}> { y = q.Quant<signed = 1, narrow = 1, rounding_mode =
  "HALF_UP">(x, s, z, b) }')
""")


@each_of("mode", *MODES)
@each_of("bits, zero, signed", (3, 0, 1), (1, 0, 1), (4, 2, 0))
def test_weights_are_integers_and_a_factor(mode, bits, zero, signed, rewrites, text):
    model = rewrites(
        qonnx(f"""(float[N,3] x) => (float[N,3] y) <float[3] w = {{-1.3, 0.25, 0.75}},
            float[3] s = {{0.5, 0.3, 0.1}}, float z = {{{zero}}}, float b = {{{bits}}}> {{
            p = q.Quant<signed = {signed}, narrow = 0, rounding_mode = "{mode}">(w, s, z, b)
            y = Mul(x, p) }}""")
    )
    left = [node.op_type for node in model.graph if node.op_type != "Constant"]
    assert "Quant" not in left
    if mode.upper() in ("ROUND", "CEIL", "FLOOR", "ROUND_TO_ZERO"):
        assert left == ["Mul", "Mul"]
