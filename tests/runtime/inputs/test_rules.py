"""Every rule, in models whose output shapes are unknown: there is nothing to copy from."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from tests.tables import each_of, each_row

INDEX = [
    "g (float[N, 6] x, int64[B, S] i) => (float[a, b, c] y) { y = Gather<axis = 1>(x, i) }",
    """g (float[3, 4] x, int64[3, 5] i)
        => (float[a, b] y) { y = GatherElements<axis=1>(x, i) }""",
    "g (float[3, 4, 5] x, int64[7, 2] i) => (float[a, b] y) { y = GatherND(x, i) }",
    """g (float[5, 4] x, int64[2, 4] i, float[2, 4] u) => (float[5, 4] y) {
        y = ScatterElements(x, i, u) }""",
    """g (float[5, 4] x, int64[3, 1] i, float[3, 4] u)
        => (float[5, 4] y) { y = ScatterND(x, i, u) }""",
    "g (int64[4] i, int64 d, float[2] v) => (float[a, b] y) { y = OneHot(i, d, v) }",
    "g (float[3, 5] x, int64[3] i) => (float y) { y = NegativeLogLikelihoodLoss(x, i) }",
    """g (float[4, 5] x, int64[5] i) => (float[4, 5] y) {
        y = ReverseSequence<batch_axis = 1, time_axis = 0>(x, i) }""",
    "g (seq(float[2]) x, int64 i) => (float[a] y) { y = SequenceAt(x, i) }",
    "g (float[4, 5] x, int64 i) => (float[4, 5] y) { y = CumSum(x, i) }",
    """g (float[1, 2, 6, 6] x, float[3, 4] r, int64[3] i) => (float[a, b, c, d] y) {
        y = RoiAlign<output_height = 2, output_width = 2>(x, r, i) }""",
    """g (float[4, 3, 2] x, float[1, 20, 2] w, float[1, 20, 5] r, int32[3] n)
        => (float[a, b, c, d] y) { y = LSTM<hidden_size = 5>(x, w, r, , n) }""",
    """g (float[3, 4] x, int64[2] i)
        => (float[a, b] y) { y = ai.onnx.ml.ArrayFeatureExtractor(x, i) }""",
]
SHAPE = [
    "g (float[N, 6] x, int64[3] s) => (float[a, b, c] y) { y = Reshape(x, s) }",
    "g (float[N, 6] x, int64[n] s) => (float[a, b, c] y) { y = Reshape(x, s) }",
    "g (float[N, 6] x, int64[3] s) => (float[a, b, c] y) { y = Expand(x, s) }",
    "g (float[N, 6] x, int64[2] s) => (float[a, b] y) { y = Tile(x, s) }",
    "g (int64[3] s) => (float[a, b, c] y) { y = ConstantOfShape(s) }",
    "g (float[1, 6, 1] x, int64[1] s) => (float[a, b] y) { y = Squeeze(x, s) }",
    "g (float[2, 6] x, int64[2] s) => (float[a, b, c, d] y) { y = Unsqueeze(x, s) }",
    "g (float[2, 6] x, int64[1] s) => (float[a, b] y) { y = ReduceSum(x, s) }",
    "g (float[2, 6] x, int64[1] k) => (float[a, b] y, int64[a, b] i) { y, i = TopK(x, k) }",
    "g (int64 a, int64 b, int64 c) => (int64[n] y) { y = Range(a, b, c) }",
    "g (float[2, 7] x, int64[3] s) => (float[a, b] y, float[a, c] z, float[a, d] w) {"
    " y, z, w = Split<axis = 1>(x, s) }",
    """g (float[2, 7] x, int64[3] s)
        => (seq(float[a, b]) y) { y = SplitToSequence<axis=1>(x, s) }""",
    "g (float[2, 7] x, int64[2] s) => (float[a, b] y) { y = CenterCropPad(x, s) }",
    """g (float[2, 7] x, int64[1] s, int64[1] e, int64[1] a, int64[1] t) => (float[b, c] y) {
        y = Slice(x, s, e, a, t) }""",
    "g (float[2, 7] x, int64[4] p) => (float[a, b] y) { y = Pad(x, p) }",
    "g (float[2, 7] x, int64[2] p, int64[1] a) => (float[b, c] y) { y = Pad(x, p, , a) }",
    "g (float[1, 2, 3, 4] x, float[4] s) => (float[a, b, c, d] y) { y = Resize(x, , s) }",
    "g (float[1, 2, 3, 4] x, int64[4] s) => (float[a, b, c, d] y) { y = Resize(x, , , s) }",
    """g (float[1, 2, 3, 4] x, int64[2] s) => (float[a, b, c, d] y) {
        y = Resize<axes = [2, 3], keep_aspect_ratio_policy = "not_larger">(x, , , s) }""",
    "g (float[2, 3, 4] x, int64[5] s) => (float[a, b, c, d, e] y) { y = AffineGrid(x, s) }",
    """g (float[1, 6, 9] x, int64[2] s, int64[2] b) => (float[a, c, d, e] y) {
        y = Col2Im(x, s, b) }""",
    "g (int64 n) => (float[a] y) { y = HannWindow(n) }",
    "g (float[1, 8, 1] x, int64 n, int64 a) => (float[b, c, d] y) { y = DFT(x, n, a) }",
    """g (float[1, 16, 1] x, int64 s, float[8] w)
        => (float[b, c, d, e] y) { y = STFT(x, s, w) }""",
    """g (int64 n, int64 d, int64 s, float l, float h) => (float[a, b] y) {
        y = MelWeightMatrix(n, d, s, l, h) }""",
    "g (float[3, 3] x, int64 k) => (float[3, 3] y) { y = Trilu(x, k) }",
    """g (int64 n, bool c, float[2] x) => (float[2] y, float[a, 2] z) {
        y, z = Loop (n, c, x) <body = b (int64 i, bool p, float[2] q)
            => (bool k, float[2] r, float[2] t) {
                k = Identity(p) r = Add(q, q) t = Neg(q) }> }""",
]
DOMAIN = [
    "g (float[50] x) => (float[50] y) { y = Log(x) }",
    "g (float[50] x) => (float[50] y) { z = Identity(x) y = Sqrt(z) }",
    "g (float[50] x, float[50] z) => (float[50] y) { y = Pow(x, z) }",
    "g (float[50] x) => (float[50] y) { y = Acosh(x) }",
    "g (float[50] x) => (float[50] y) { y = Atanh(x) }",
    "g (float[50] x) => (float[50] y) { y = Reciprocal(x) }",
    "g (int32[50] x, int32[50] z) => (int32[50] y) { y = Div(x, z) }",
    "g (int64[50] x, int64[50] z) => (int64[50] y) { y = Mod(x, z) }",
    """g (float[2, 3, 4] x, float[3] s, float[3] b, float[3] m, float[3] v)
        => (float[2, 3, 4] y) { y = BatchNormalization(x, s, b, m, v) }""",
    """g (uint8[50] x, uint8[50] z)
        => (uint8[50] y) { y = BitShift<direction = "LEFT">(x, z) }""",
    "g (float[50] x, float s, uint8 z) => (uint8[50] y) { y = QuantizeLinear(x, s, z) }",
    "g (int32[50] x, float s, int32 z) => (float[50] y) { y = DequantizeLinear(x, s, z) }",
    """g (float[1, 1, 4, 4] x, float[1, 3, 3, 2] z)
        => (float[a, b, c, d] y) { y = GridSample(x, z) }""",
    """g (float[1, 6, 4] b, float[1, 2, 6] s, int64 n, float i, float t) => (int64[m, 3] y) {
        y = NonMaxSuppression(b, s, n, i, t) }""",
    "g (float[50] x, float l, float h) => (float[50] y) { y = Clip(x, l, h) }",
    "g (string[20] x) => (int64[20] y) { y = Cast<to = 7>(x) }",
    """g (string[20] x) => (int64[20] y) {
        y = ai.onnx.ml.LabelEncoder<keys_strings = ["a", "b"], values_int64s = [5, 6]>(x) }""",
    "g (float[9] x, float r, bool t) => (float[9] y) { y = Dropout(x, r, t) }",
]


def made(parse, text):
    model = parse(text)
    model.opset_imports["ai.onnx.ml"] = 3
    feeds = generate(model)
    with OnnxRuntimeEngine().prepare(model) as session:
        return feeds, [session.run(sample) for sample in feeds]


@each_of("text", *(INDEX + SHAPE))
def test_indices_and_shapes_fit(parse, text):
    _, outputs = made(parse, text)
    for sample in outputs:
        for data in sample.values():
            assert all(item.size for item in (data if isinstance(data, list) else [data]))


@each_of("text", *DOMAIN)
def test_values_lie_where_the_operator_is_defined(parse, text):
    _, outputs = made(parse, text)
    for sample in outputs:
        assert np.isfinite(sample["y"].astype(np.float64)).all()


def test_declared_outputs_decide(parse):
    text = """g (float[2, 6] x, int64[2] s, int64[1] k)
        => (float[4, 3] y, float[2, 5] z, int64[2, 5] i) {
        y = Reshape(x, s)  z, i = TopK(x, k) }"""
    feeds, _ = made(parse, text)
    assert feeds[0]["s"].tolist() == [4, 3]
    assert feeds[0]["k"].tolist() == [5]


@each_row("""between
- j = Cast<to = 7>(i)
- k = Identity(i) a = Constant<value_int = 1>() l = Flatten(k) j = Cast<to = 7>(l)
- k = Transpose(i) m = Concat<axis = 0>(k, k) j = Cast<to = 7>(m)
""")
def test_indices_are_followed_through_what_moves_them(parse, between):
    text = f"""g (float[3, 4] x, int32[40] i) => (float[?, ?] y) {{
        {between} z = Gather(x, j) y = Flatten(z) }}"""
    feeds, _ = made(parse, text)
    assert all(set(sample["i"]) == {0, 1, 2} for sample in feeds)


def test_indices_are_followed_into_functions_branches_and_loops(parse):
    text = """g (float[3, 4] x, int64[40] i, bool c, int64 n) => (float[a, 4] y, int64[40] s) {
        y = If (c) <then_branch = t () => (float[a, 4] p) { p = my.f(x, i) },
                    else_branch = e () => (float[b, 4] q) { q = Gather(x, i) }>
        s = Loop (n, , i) <body = b (int64 k, bool g, int64[40] v)
            => (bool h, int64[40] w) { h = Identity(g) u = Gather(x, v) w = Identity(v) }> }
        <domain: "my", opset_import: ["" : 21]> f (d, j) => (r) { r = Gather(d, j) }"""
    feeds, _ = made(parse, text)
    assert all(set(sample["i"]) == {0, 1, 2} for sample in feeds)


@each_of(
    "trips, result, endless",
    ("", "d = Identity(c)", True),
    ("", "d = Not(c)", False),
    ("n", "d = Identity(c)", False),
)
def test_a_loop_without_an_end_is_not_started(trips, result, endless):
    text = f"""<ir_version: 10, opset_import: ["" : 20]>
    g (float[2] x, bool keep, int64 n) => (float[2] y) {{
        y = Loop({trips}, keep, x) <body = b (int64 i, bool c, float[2] s)
            => (bool d, float[2] u) {{ {result} u = Neg(s) }}> }}"""
    for feeds in generate(ir.from_onnx_text(text), seed=0, samples=2):
        assert bool(feeds["keep"]) is not endless
