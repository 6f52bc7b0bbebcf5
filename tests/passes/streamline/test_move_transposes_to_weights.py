from tests.tables import cases_in, each_row

HEADER = '<ir_version: 10, opset_import: ["" : 20, "onnx_passes.ops" : 1]> main '
WEIGHTS = ", ".join(str((7 * i) % 11 - 5) for i in range(48))
TURNED = f"""(float[2,2,3,4] x) => (float[2,2] y) <float[2,4,2,3] t, float[2,24] f,
float[24,2] w = {{{WEIGHTS}}}, int64[2] shape = {{2, -1}}, float[3] s = {{-1, 0.5, 2}},
float[24,3] r = {{{", ".join(["0.5", "1", "2"] * 24)}}}, float v = {{1}}> """


@each_row("""body
Flatten: t = Transpose <perm = [0, 3, 1, 2]> (x) f = Flatten(t) y = MatMul(f, w)
Reshape: t = Transpose <perm = [0, 3, 1, 2]> (x) f = Reshape(t, shape) y = MatMul(f, w)
thresholds: t = Transpose <perm = [0, 3, 1, 2]> (x) f = Flatten(t) m =
  onnx_passes.ops.MultiThreshold(f, s, v) y = MatMul(m, w)
thresholds and a sum: t = Transpose <perm = [0, 3, 1, 2]> (x) f = Flatten(t) m =
  onnx_passes.ops.MultiThreshold(f, s, v) n = Add(m, v) y = MatMul(n, w)
""")
def test_rows_of_the_weights_are_permuted(rewrites, body):
    model = rewrites(HEADER + TURNED + "{ " + body + " }")
    assert "Transpose" not in [node.op_type for node in model.graph]


@each_row("""sizes | turned | rows
another axis: 4,6,1 | 1,4,6 | f = Flatten <axis = 2> (t)
a copied size: 1,1,24 | 24,1,1 | f = Reshape(t, shape)
""")
def test_rows_of_one_channel_may_begin_at_another_axis(rewrites, sizes, turned, rows):
    text = TURNED.replace("2,2,3,4] x", f"2,{sizes}] x").replace(
        "2,4,2,3] t", f"2,{turned}] t"
    )
    body = f"{{ t = Transpose <perm = [0, 3, 1, 2]> (x) {rows} y = MatMul(f, w) }}"
    model = rewrites(HEADER + text.replace("{2, -1}", "{2, 0}") + body)
    assert "Transpose" not in [node.op_type for node in model.graph]


OTHER_AXIS = TURNED.replace("[2,4,2,3] t", "[4,2,2,3] t").replace("[2,24] f", "[4,12] f")
OTHER_AXIS = OTHER_AXIS.replace("[24,2] w", "[12,4] w").replace("[2,2] y", "[4,4] y")
READ = TURNED.replace("2,2] y)", "2,2] y, float[2,24] f)").replace("float[2,24] f,", "")


test_cases = cases_in(lambda body: f"{HEADER}{TURNED}{{ {body} }}")("""
first axis: =f"{HEADER}{OTHER_AXIS}{{ t = Transpose <perm = [3, 0, 1, 2]> (x) f = Flatten(t)
  y = MatMul(f, w) }}"
computed: t = Transpose <perm = [0, 3, 1, 2]> (x) f = Flatten(t) u = Identity(w)
  y = MatMul(f, u)
thresholds by element: t = Transpose <perm = [0, 3, 1, 2]> (x) f = Flatten(t)
  m = onnx_passes.ops.MultiThreshold(f, r, v) y = MatMul(m, w)
read elsewhere: =f"{HEADER}{READ}{{ t = Transpose <perm = [0, 3, 1, 2]> (x) f = Flatten(t)
  y = MatMul(f, w) }}"
""")
