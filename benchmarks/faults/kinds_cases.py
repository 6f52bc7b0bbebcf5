"""Wrong and right passes by kind, written without a look at the gate."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.faults.kinds_form import (
    TEXTS,
    Case,
    case,
    edit,
    eq,
    free,
    ids,
    kind,
    m,
    net,
    relus_bounded,
    relus_guarded,
    rnd,
    scaled,
    swap,
    tol,
)
from onnx_passes import passes

F4, I8 = np.float32, np.int64
TOL = passes.verify.tolerance
TEXTS.update(
    NX="(float[N,8] x) => (float[N,8] y)",
    NTX="(float[N,T,8] x) => (float[N,T,8] y)",
    HX="(float16[N,8] x) => (float16[N,8] y)",
    PICTURE="(float[N,4,H,W] x) => (float[N,4,P,Q] y)",
    IF="<float big = {400000.0}> { m = ReduceMax<keepdims = 0>(x) c = Greater(m, big)",
    SPAN="<int64 z = {0}, int64 one = {1}, int64[1] a0 = {0}, int64[1] a1 = {1},",
    LENGTH="{ n = Shape<start = 1, end = 2>(x) l = Squeeze(n) p = Range(z, l, one)",
    BIG="(float[256,1024] x) => (float[256,2048] y)",
    CONV="{ v = Conv<pads = [1, 1, 1, 1]>(x, w) y = Relu(v) } | w",
    NORM="<float[8] s = {1, 2, 3, 4, 5, 6, 7, 8}> { v = LayerNormalization(x, s) y = Abs(v) }",
    MASKED="(float[N,T,8] q, int64[N,T] attention_mask) => (float[N,T,8] y) <int64[1] a1 "
    "= {1}, int64[1] a2 = {2}, float low = {-1000000000.0}, float soft = "
    "{-10000.0}, float one = {1.0}, float tiny = {0.000000001}, float nil = {0.0}> "
    "{ qt = Transpose<perm = [0, 2, 1]>(q) s = MatMul(q, qt) keep = Cast<to = "
    "9>(attention_mask) u = Unsqueeze(keep, a1) g = Cast<to = 1>(attention_mask)",
)
TEXTS["SEGMENTS"] = TEXTS["MASKED"].replace("attention_mask", "segments")

PADDED = np.array([[1, 1, 1, 0, 0], [0, 0, 0, 0, 0]], I8)


def far(*shape: int, value: float = 1e6) -> np.ndarray:
    """Return ordinary numbers, the first one far away."""
    array = rnd(*shape)
    array.flat[0] = value
    return array


BODIES: list[Case] = kind(
    "bodies matched by name",
    True,
    case(
        "result-of-a-rare-branch",
        *swap(
            "$NX $IF y = If (c) <then_branch = t () => (float[N,8] a) { n = Neg(x) a = "
            "Exp(n) }, else_branch = e () => (float[N,8] b) { b = Tanh(x) }> }",
            ("a) { n = Neg(x) a = Exp(n)", "aa) { n = Neg(x) aa = Sigmoid(n)"),
        ),
        x=far(3, 8),
    ),
    case(
        "branch-from-the-seventh-turn",
        *swap(
            "(float[4] x, int64 n) => (float[4] y) <bool go = {1}> { y = Loop (n, go, x) "
            "<body = b (int64 i, bool c, float[4] v) => (bool d, float[4] w) { d = "
            "Identity(c) f = Constant<value = int64 {6}>() q = Less(i, f) w = If (q) "
            "<then_branch = t () => (float[4] p) { p = Softsign(v) }, else_branch = e () => "
            "(float[4] r) { h = Neg(v) r = Softsign(h) }> }> }",
            ("(float[4] r) { h = Neg(v) r =", "(float[4] rr) { h = Abs(v) rr ="),
        ),
        x=rnd(4),
        n=np.int64(9),
    ),
    case(
        "branch-of-a-branch",
        *swap(
            "(float[N,8] x, bool flag) => (float[N,8] y) <float big = {90000.0}> { m = "
            "ReduceL2<keepdims = 0>(x) c = Greater(m, big) y = If (flag) <then_branch = t () "
            "=> (float[N,8] a) { a = If (c) <then_branch = u () => (float[N,8] p) { s = "
            "Sqrt(m) p = Div(x, s) }, else_branch = v () => (float[N,8] r) { r = Neg(x) }> "
            "}, else_branch = e () => (float[N,8] b) { b = Identity(x) }> }",
            ("(float[N,8] a) { a = If", "(float[N,8] outer) { outer = If"),
            ("p) { s = Sqrt(m) p = Div(x, s)", "pp) { pp = Div(x, m)"),
        ),
        x=far(3, 8),
        flag=np.bool_(True),
    ),
    case(
        "two-results-trade-places",
        *swap(
            "(float[N,8] x) => (float[N,8] y, float[N,8] z) $IF y, z = If (c) <then_branch = "
            "t () => (float[N,8] a, float[N,8] b) { a = Relu(x) b = Neg(x) }, else_branch = "
            "e () => (float[N,8] f, float[N,8] h) { f = Relu(x) h = Tanh(x) }> }",
            ("(float[N,8] a, float[N,8] b)", "(float[N,8] b, float[N,8] a)"),
        ),
        x=far(3, 8),
    ),
    case(
        "state-and-scan-output-trade-places",
        *swap(
            "(float[4] x, float[T,4] xs) => (float[4] y, float[T,4] ys) { y, ys = "
            "Scan<num_scan_inputs = 1, body = b (float[4] s, float[4] u) => (float[4] s2, "
            "float[4] o) { s2 = Add(s, u) o = Softsign(s2) }>(x, xs) }",
            ("=> (float[4] s2, float[4] o)", "=> (float[4] o, float[4] s2)"),
        ),
        x=rnd(4),
        xs=rnd(3, 4),
    ),
    case(
        "if-becomes-its-usual-branch",
        *swap(
            "$NX $IF r = If (c) <then_branch = t () => (float[N,8] a) { a = Div(x, m) }, "
            "else_branch = e () => (float[N,8] b) { b = Tanh(x) }> y = Neg(r) }",
            (
                "r = If (c) <then_branch = t () => (float[N,8] a) { a = Div(x, m) }, "
                "else_branch = e () => (float[N,8] b) { b = Tanh(x) }>",
                "b = Tanh(x) r = Identity(b)",
            ),
        ),
        x=far(3, 8),
    ),
    case(
        "branch-in-a-function",
        *swap(
            '$NX { h = local.Guarded(x) y = Add(h, x) } <domain: "local", opset_import: ["" '
            ": 21]> Guarded (x) => (r) { m = ReduceSumSquare<keepdims = 0>(x) big = "
            "Constant<value = float {1000000000.0}>() c = Less(m, big) r = If (c) "
            "<then_branch = t () => (float[N,8] a) { a = Sigmoid(x) }, else_branch = e () => "
            "(float[N,8] b) { b = Sign(x) }> }",
            ("(float[N,8] b) { b = Sign(x)", "(float[N,8] s) { s = Softsign(x)"),
        ),
        x=far(3, 8),
    ),
    case(
        "rule-in-a-rare-branch",
        "$NX $IF y = If (c) <then_branch = t () => (float[N,8] a) { n = Neg(x) a = Max(x, n) "
        "}, else_branch = e () => (float[N,8] b) { b = Tanh(x) }> }",
        eq("Max(x, Neg(x))", "Relu(x)"),
        x=far(3, 8),
    ),
    case(
        "early-exit-of-a-loop",
        *swap(
            "(float[4] x) => (float[4] y) <bool go = {1}, int64 n = {5}, float big = "
            "{100000.0}> { y = Loop (n, go, x) <body = b (int64 i, bool c, float[4] v) => "
            "(bool d, float[4] w) { w = Add(v, x) m = ReduceMax<keepdims = 0>(w) d = Less(m, "
            "big) }> }",
            ("w) { w = Add(v, x)", "ww) { ww = Add(v, x)"),
            ("(w) d = Less(m, big)", "(ww) d = Identity(c)"),
        ),
        x=far(4),
    ),
    case(
        "guarded-activations-of-a-unet",
        net("unet-dynamo", partial(relus_guarded, 3e4)),
        eq("Clip(x, a, b)", "Relu(x)", "num(a) == 0"),
        x0=rnd(1, 3, 64, 64, scale=1e7),
    ),
)
SIZES: list[Case] = kind(
    "limits of sizes",
    True,
    case(
        "crop-to-a-computed-length",
        "(float[N,T,8] x) => (float[N,U,8] y) $SPAN int64[1] two = {2}, int64[1] f = {40}> { "
        "n = Shape<start = 1, end = 2>(x) k = Mul(two, f) e = Min(n, k) y = Slice(x, a0, e, "
        "a1) }",
        eq("Slice(x, b, Min(n, e), a)", "Identity(x)"),
        x=rnd(2, 100, 8),
    ),
    case(
        "positions-beyond-the-table",
        "$NTX $SPAN int64 most = {48}> $LENGTH q = Mod(p, most) e = Gather(table, q) y = "
        "Add(x, e) } | table 48x8",
        eq("Gather(table, Mod(p, most))", "Gather(table, p)"),
        x=rnd(1, 60, 8),
    ),
    case(
        "attention-window",
        "$NTX $SPAN int64 wide = {24}, float low = {-100000.0}> $LENGTH r = Unsqueeze(p, a1) "
        "f = Unsqueeze(p, a0) d = Sub(r, f) near = Less(d, wide) past = GreaterOrEqual(d, z) "
        "mask = And(near, past) xt = Transpose<perm = [0, 2, 1]>(x) s = MatMul(x, xt) v = "
        "Where(mask, s, low) w = Softmax<axis = -1>(v) y = MatMul(w, x) }",
        eq("And(Less(d, w), GreaterOrEqual(d, z))", "GreaterOrEqual(d, z)"),
        x=rnd(1, 40, 8),
    ),
    case(
        "best-of-a-bounded-number",
        "(float[N,8] x) => (float[K,8] y) <int64[1] most = {20}> { n = Shape<end = 1>(x) k = "
        "Min(n, most) v, i = TopK<axis = 0>(x, k) y = Neg(v) }",
        eq("Min(n, most)", "Identity(n)"),
        x=rnd(30, 8),
    ),
    case(
        "loop-that-stops-by-itself",
        *swap(
            "(float[T,8] x) => (float[8] y) <bool go = {1}, float[8] start = {0, 0, 0, 0, 0, "
            "0, 0, 0}, int64 z = {0}> { n = Shape<start = 0, end = 1>(x) l = Squeeze(n) y = "
            "Loop (l, go, start) <body = b (int64 i, bool c, float[8] s) => (bool d, "
            "float[8] t) { v = Gather(x, i) t = Add(s, v) f = Constant<value = int64 {28}>() "
            "d = Less(i, f) }> }",
            ("d = Less(i, f)", "d = Identity(c)"),
        ),
        x=rnd(40, 8),
    ),
    case(
        "number-of-chunks",
        "$NTX $SPAN int64 most = {63}, int64 wide = {64}> { n = Shape<start = 1, end = 2>(x) "
        "up = Add(n, most) k = Div(up, wide) f = Cast<to = 1>(k) y = Mul(x, f) }",
        eq("Mul(x, Cast(Div(Add(n, a), b), to=1))", "Identity(x)"),
        x=rnd(1, 70, 8),
    ),
    case(
        "scale-by-a-bounded-length",
        "$NTX <float half = {0.5}, float most = {30.0}> { n = Shape<start = 1, end = 2>(x) f "
        "= Cast<to = 1>(n) h = Mul(f, half) b = Min(h, most) y = Mul(x, b) }",
        eq("Min(h, most)", "Identity(h)"),
        x=rnd(1, 90, 8),
    ),
    case(
        "band-of-a-matrix",
        "(float[N,T,8] x) => (float[N,T,T] y) <int64 wide = {20}> { t = Transpose<perm = [0, "
        "2, 1]>(x) s = MatMul(x, t) b = Trilu<upper = 0>(s, wide) y = Tanh(b) }",
        eq("Trilu(s, wide, upper=0)", "Identity(s)"),
        x=rnd(1, 30, 8),
    ),
    case(
        "positions-in-half-precision",
        "(float[N,T] x) => (float[N,T] y) $SPAN float f = {0.01}> $LENGTH h = Cast<to = "
        "10>(p) b = Cast<to = 1>(h) a = Mul(b, f) w = Sin(a) y = Mul(x, w) }",
        eq("Cast(Cast(p, to=10), to=1)", "Cast(p, to=1)"),
        x=rnd(1, 2100),
    ),
    case(
        "relative-positions-of-t5",
        net("t5-small-dynamo"),
        eq("Min(x, Expand(a, s))", "Identity(x)", "num(a).min() > 0"),
        input_ids=ids(1, 200),
        attention_mask=np.ones((1, 200), I8),
        decoder_input_ids=ids(1, 4),
    ),
)
THRESHOLDS: list[Case] = kind(
    "thresholds inside",
    True,
    case(
        "bounded-sum-of-squares",
        "$NX <float lo = {0.0}, float hi = {1000000000.0}, float one = {1.0}> { s = "
        "ReduceSumSquare<keepdims = 0>(x) b = Clip(s, lo, hi) d = Add(b, one) y = Div(x, d) }",
        eq("Clip(s, lo, hi)", "Identity(s)"),
        x=far(2, 8),
    ),
    case(
        "clip-behind-a-convolution",
        "$PICTURE <float lo = {-60000.0}, float hi = {60000.0}> { v = Conv<pads = [1, 1, 1, "
        "1]>(x, w) b = Clip(v, lo, hi) y = Neg(b) } | w 4x4x3x3",
        eq("Clip(Conv(x, w, pads=[1, 1, 1, 1]), a, b)", "Conv(x, w, pads=[1, 1, 1, 1])"),
        x=rnd(1, 4, 6, 6, scale=1e6),
    ),
    case(
        "huber-loss-as-a-square",
        "(float[N,8] x, float[N,8] t) => (float[N,8] y) <float delta = {500.0}, float half = "
        "{0.5}, float off = {250.0}> { p = MatMul(x, w) d = Sub(p, t) a = Abs(d) c = Less(a, "
        "delta) q = Mul(d, d) s = Mul(q, half) e = Sub(a, off) r = Mul(e, delta) y = "
        "Where(c, s, r) } | w 8x8",
        eq("Where(Less(a, d), s, r)", "Identity(s)"),
        x=rnd(2, 8, scale=1e5),
        t=rnd(2, 8),
    ),
    case(
        "one-product-is-special",
        "(float[N,8] a, float[N,8] b) => (float[N,8] y) <float s = {1234.5}, float nil = "
        "{0.0}> { p = Mul(a, b) c = Equal(p, s) q = Where(c, nil, p) y = Neg(q) }",
        eq("Where(Equal(p, s), nil, p)", "Identity(p)"),
        a=np.full((1, 8), 823, F4),
        b=np.full((1, 8), 1.5, F4),
    ),
    case(
        "norm-is-not-bounded",
        "$NX <float most = {1000.0}, float one = {1.0}> { n = ReduceL2<keepdims = 0>(x) r = "
        "Div(most, n) f = Min(r, one) y = Mul(x, f) }",
        eq("Mul(x, Min(Div(a, n), one))", "Identity(x)"),
        x=far(2, 8),
    ),
    case(
        "scores-are-not-bounded",
        "$NTX <float lo = {-1000000.0}, float hi = {1000000.0}> { t = Transpose<perm = [0, "
        "2, 1]>(x) s = MatMul(x, t) b = Clip(s, lo, hi) a = Softmax<axis = -1>(b) y = "
        "MatMul(a, x) }",
        eq("Clip(s, lo, hi)", "Identity(s)"),
        x=np.array([[[2e3] * 8, [3e3] * 8, [1e3] * 8]], F4),
    ),
    case(
        "floor-of-a-variance",
        "$NX <int64[1] ax = {1}, float least = {0.001}> { e = ReduceMean(x, ax) d = Sub(x, "
        "e) q = Mul(d, d) v = ReduceMean(q, ax) f = Max(v, least) s = Sqrt(f) y = Div(d, s) }",
        eq("Max(v, least)", "Identity(v)"),
        x=rnd(3, 8, scale=1e-3, shift=1),
    ),
    case(
        "confident-class-is-one",
        "$NX <float sure = {0.99999}, float one = {1.0}> { h = MatMul(x, w) s = Softmax<axis "
        "= -1>(h) c = Greater(s, sure) y = Where(c, one, s) } | w 8x8",
        eq("Where(Greater(s, a), b, s)", "Identity(s)"),
        x=np.linalg.solve(rnd(8, 8, scale=0.3).T, np.eye(8)[:1].T * 14).T.astype(F4),
    ),
    case(
        "bounded-activations-of-a-unet",
        net("unet-dynamo", partial(relus_bounded, 1e5)),
        eq("Clip(x, a, b)", "Relu(x)", "num(a) == 0"),
        x0=rnd(1, 3, 64, 64, scale=1e7),
    ),
    case(
        "all-are-positive",
        "(float[N,64] x) => (float[N,64] y) <int64[1] ax = {1}, float nil = {0.0}, float all "
        "= {64.0}> { c = Greater(x, nil) f = Cast<to = 1>(c) s = ReduceSum(f, ax) e = "
        "Equal(s, all) n = Neg(x) y = Where(e, n, x) }",
        eq("Where(Equal(s, a), n, x)", "Identity(x)"),
        x=np.abs(rnd(2, 64)),
    ),
)
ODD: list[Case] = kind(
    "odd pictures and outputs of length 1",
    True,
    case(
        "pool-without-its-ceiling",
        "$PICTURE { p = MaxPool<kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1>(x) y "
        "= Tanh(p) }",
        eq(
            "MaxPool(x, ceil_mode=1, _outputs=['p'])",
            "MaxPool(x, kernel_shape=[2, 2], strides=[2, 2])",
        ),
        x=rnd(1, 4, 5, 7),
    ),
    case(
        "scales-for-halved-sizes",
        "$PICTURE <int64[2] two = {2, 2}> { n = Shape<end = 2>(x) s = Shape<start = 2>(x) h "
        '= Div(s, two) t = Concat<axis = 0>(n, h) r = Resize<mode = "linear">(x, , , t) y = '
        "Neg(r) }",
        eq(
            "Resize(x, None, None, t)",
            "Resize(x, None, k([1, 1, 0.5, 0.5], 'f4'), mode='linear')",
        ),
        x=rnd(1, 4, 5, 7),
    ),
    case(
        "average-pool-same-as-valid",
        '$PICTURE { p = AveragePool<auto_pad = "SAME_UPPER", kernel_shape = [2, 2], strides '
        "= [2, 2]>(x) y = Tanh(p) }",
        eq(
            "AveragePool(x, auto_pad='SAME_UPPER')",
            "AveragePool(x, kernel_shape=[2, 2], strides=[2, 2])",
        ),
        x=rnd(1, 4, 5, 6),
    ),
    case(
        "mean-of-means",
        "(float[N,4,H,W] x) => (float[N,4] y) <int64[2] ax = {2, 3}> { p = "
        "AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(x) y = ReduceMean<keepdims = "
        "0>(p, ax) }",
        tol("ReduceMean(AveragePool(x), ax, keepdims=0)", "ReduceMean(x, ax, keepdims=0)"),
        x=rnd(1, 4, 5, 7),
    ),
    case(
        "pool-as-two-slices",
        "(float[N,4,W] x) => (float[N,4,Q] y) { p = AveragePool<kernel_shape = [2], strides "
        "= [2]>(x) y = Neg(p) }",
        tol(
            "AveragePool(x)",
            "Mul(Add(Slice(x, k([0]), k([2**31]), k([2]), k([2])), "
            "Slice(x, k([1]), k([2**31]), k([2]), k([2]))), k(0.5, 'f4'))",
        ),
        x=rnd(1, 4, 3),
    ),
    case(
        "pools-of-squeezenet-with-a-ceiling",
        net("light_squeezenet", free),
        eq(
            "MaxPool(x, _outputs=['p'])",
            "MaxPool(x, ceil_mode=1, **attrs(p))",
            "at(p, 'ceil_mode') is None",
        ),
        data_0=rnd(1, 3, 225, 227),
    ),
    case(
        "symmetric-half-pixels",
        "(float[N,4,W] x) => (float[N,4,Q] y) <float[3] s = {1.0, 1.0, 0.5}> { r = "
        'Resize<mode = "linear", coordinate_transformation_mode = "half_pixel_symmetric">(x, '
        ", s) y = Tanh(r) }",
        eq(
            "Resize(x, None, s, coordinate_transformation_mode='half_pixel_symmetric')",
            "Resize(x, None, s, mode='linear')",
        ),
        x=rnd(1, 4, 5),
    ),
    case(
        "variance-of-one-element",
        "(float[N,4,H,W] x) => (float[N,4,1,1] y) <int64[2] ax = {2, 3}, int64 one = {1}> { "
        "e = ReduceMean(x, ax) d = Sub(x, e) q = ReduceSumSquare(d, ax) n = Shape<start = "
        "2>(x) c = ReduceProd<keepdims = 0>(n) l = Sub(c, one) b = Max(l, one) f = Cast<to = "
        "1>(b) y = Div(q, f) }",
        eq("Max(l, one)", "Identity(l)"),
        x=rnd(1, 4, 1, 1),
    ),
    case(
        "crop-to-an-even-length",
        "(float[N,L] x) => (float[N,Q] y) <int64[1] two = {2}, int64[1] z = {0}, int64[1] "
        "one = {1}> { n = Shape<start = 1>(x) h = Div(n, two) e = Mul(h, two) c = Slice(x, "
        "z, e, one) y = Abs(c) }",
        eq("Slice(x, z, Mul(Div(n, t), t), one)", "Identity(x)"),
        x=rnd(1, 7),
    ),
    case(
        "padding-that-even-pictures-ignore",
        net("half-images-dynamo", free),
        eq(
            "Conv(x, w, b, strides=[2, 2], _outputs=['y'])",
            "Conv(x, w, b, **{**attrs(y), 'pads': [1, 1, 0, 0]})",
            "list(at(y, 'pads')) == [1, 1, 1, 1]",
        ),
        x0=rnd(1, 3, 31, 33, scale=60, shift=128),
    ),
)
VALUES: list[Case] = kind(
    "values that samples lack",
    True,
    case(
        "hash-of-large-identifiers",
        "(int64[N] x) => (int64[N] y) <int64 most = {30000}, int64 one = {1}> { h = Mod(x, "
        "most) y = Add(h, one) }",
        eq("Mod(x, most)", "Where(Less(x, k(0)), Add(x, most), x)"),
        x=np.array([5, 29999, 30001, 123456], I8),
    ),
    case(
        "sum-at-equal-places",
        "(float[64] x, int64[3,1] at, float[3] u) => (float[64] y) { s = ScatterND<reduction "
        '= "add">(x, at, u) y = Tanh(s) }',
        eq(
            "ScatterND(x, at, u, reduction='add')", "ScatterND(x, at, Add(GatherND(x, at), u))"
        ),
        x=rnd(64),
        at=np.array([[3], [9], [3]], I8),
        u=rnd(3),
    ),
    case(
        "one-hot-of-negative-labels",
        "(int64[N] x) => (float[N,10] y) <int64 d = {10}, float[2] v = {0.0, 1.0}> { y = "
        "OneHot(x, d, v) }",
        eq("OneHot(x, d, v)", "Cast(Equal(Unsqueeze(x, k([1])), k(np.arange(10))), to=1)"),
        x=np.array([3, -1, 9], I8),
    ),
    case(
        "rows-of-equal-values",
        "$NX <int64[1] ax = {1}, float tiny = {0.000000000001}> { e = ReduceMean(x, ax) d = "
        "Sub(x, e) q = ReduceL2(d, ax) s = Add(q, tiny) y = Div(d, s) }",
        tol("Add(q, t)", "Identity(q)", "num(t) < 1e-9"),
        x=np.full((2, 8), 3, F4),
    ),
    case(
        "rows-of-one-sign",
        "(float[N,64] x) => (float[N,1] y) <int64[1] ax = {1}> { r = Relu(x) q = "
        "ReduceMax(r, ax) y = Sqrt(q) }",
        eq("ReduceMax(Relu(x), ax)", "ReduceMax(x, ax)"),
        x=-np.abs(rnd(2, 64)),
    ),
    case(
        "small-values-are-shrunk",
        "$NX { s = Shrink<lambd = 0.0005, bias = 0.0>(x) y = Add(s, x) }",
        eq("Shrink(x)", "Identity(x)"),
        x=rnd(2, 8, scale=1e-4),
    ),
    case(
        "variance-by-a-difference",
        "$NX <int64[1] ax = {1}> { e = ReduceMean(x, ax) d = Sub(x, e) q = Mul(d, d) y = "
        "ReduceMean(q, ax) }",
        tol(
            "ReduceMean(Mul(d, d), ax)",
            "Sub(ReduceMean(Mul(src(d, 0), src(d, 0)), ax), Mul(src(d, 1), src(d, 1)))",
            "d.producer() is not None and d.producer().op_type == 'Sub'",
        ),
        x=rnd(2, 8, shift=5000),
    ),
    case(
        "integers-beyond-a-mantissa",
        "(int32[N] x) => (int32[N] y) <int32 one = {1}> { f = Cast<to = 1>(x) i = Cast<to = "
        "6>(f) y = Sub(i, one) }",
        eq("Cast(Cast(x, to=1), to=6)", "Identity(x)"),
        x=np.array([1, 16777217, 33554435], np.int32),
    ),
    case(
        "padding-of-a-recommender",
        net("recommender-dynamo"),
        eq("Gather(t, Gather(x, i, axis=1))", "Gather(t, Max(Gather(x, i, axis=1), k(0)))"),
        x0=rnd(1, 8),
        x1=np.array([[[5, 7, -1], [3, -1, -1], [9, 9, 9], [0, 1, 2]]], I8),
    ),
    case(
        "padding-of-word-counts",
        net("counts-torchscript"),
        eq("Equal(x, z)", "Less(x, k(1))", "num(z) == 0 and num(z).dtype == np.int64"),
        x0=np.array([[-3, 5, 9, 0, 0, 7, -1, 4, 4, 2, 1, 0]], I8),
    ),
)
MASKS: list[Case] = kind(
    "masks",
    True,
    case(
        "infinity-for-a-large-number",
        "$MASKED t = Where(u, s, low) w = Softmax<axis = -1>(t) y = MatMul(w, q) }",
        eq("Where(u, s, low)", "Where(u, s, k(-np.inf, 'f4'))", "num(low) > -np.inf"),
        q=rnd(2, 5, 8),
        attention_mask=PADDED,
    ),
    case(
        "a-softer-additive-mask",
        "$MASKED h = Sub(one, g) v = Mul(h, low) e = Unsqueeze(v, a1) t = Add(s, e) w = "
        "Softmax<axis = -1>(t) y = MatMul(w, q) }",
        tol("Mul(Sub(one, g), low)", "Mul(Sub(one, g), k(-1e4, 'f4'))", "num(low) < -1e5"),
        q=rnd(2, 5, 8),
        attention_mask=PADDED,
    ),
    case(
        "mean-over-no-words",
        "$MASKED e = Unsqueeze(g, a2) p = Mul(q, e) t = ReduceSum(p, a1) b = ReduceSum(e, "
        "a1) d = Max(b, tiny) f = Div(t, d) y = Add(q, f) }",
        eq("Max(b, tiny)", "Identity(b)"),
        q=rnd(2, 5, 8),
        attention_mask=PADDED,
    ),
    case(
        "weights-are-not-masked-again",
        "$MASKED t = Where(u, s, low) w = Softmax<axis = -1>(t) e = Unsqueeze(g, a1) r = "
        "Mul(w, e) y = MatMul(r, q) }",
        eq("Mul(w, e)", "Identity(w)"),
        q=rnd(2, 5, 8),
        attention_mask=PADDED,
    ),
    case(
        "a-mask-of-segments",
        "$SEGMENTS t = Where(u, s, soft) w = Softmax<axis = -1>(t) y = MatMul(w, q) }",
        eq("Cast(x, to=9)", "Equal(x, k(1))"),
        q=rnd(1, 5, 8),
        segments=np.array([[1, 1, 2, 2, 0]], I8),
    ),
    case(
        "last-word-by-a-count",
        "(float[N,T,8] q, int64[N,T] attention_mask) => (float[N,8] y) <int64[1] a1 = {1}, "
        "int64 one = {1}, int64 z = {0}> { n = Shape<start = 1, end = 2>(q) l = Squeeze(n) p "
        "= Range(z, l, one) o = Mul(p, attention_mask) i = ReduceMax(o, a1) h = "
        "GatherND<batch_dims = 1>(q, i) y = Neg(h) }",
        eq("ReduceMax(Mul(p, g), ax)", "Sub(ReduceSum(g, ax), k([1]))"),
        q=rnd(2, 5, 8),
        attention_mask=np.array([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0]], I8),
    ),
    case(
        "nobody-sees-himself",
        "$MASKED n = Shape<start = 1, end = 2>(q) d = Concat<axis = 0>(n, n) z = "
        "ConstantOfShape<value = float[1] {0}>(d) i = EyeLike(z) j = Cast<to = 9>(i) f = "
        "Or(u, j) t = Where(f, s, low) w = Softmax<axis = -1>(t) y = MatMul(w, q) }",
        eq("Where(Or(u, j), s, low)", "Where(u, s, low)"),
        q=rnd(2, 5, 8),
        attention_mask=PADDED,
    ),
    case(
        "a-sentence-without-words",
        "$MASKED o = ReduceMax(attention_mask, a1) b = Cast<to = 9>(o) e = Unsqueeze(b, a2) "
        "t = Where(u, s, low) w = Softmax<axis = -1>(t) r = MatMul(w, q) y = Where(e, r, "
        "nil) }",
        eq("Where(e, r, nil)", "Identity(r)"),
        q=rnd(2, 5, 8),
        attention_mask=PADDED,
    ),
    case(
        "infinity-in-t5",
        net("t5-small-dynamo"),
        eq("Where(u, z, low)", "Where(u, z, k(-np.inf, 'f4'))", "-np.inf < num(low) < -1e38"),
        input_ids=ids(2, 6),
        attention_mask=np.array([[1] * 6, [0] * 6], I8),
        decoder_input_ids=ids(2, 4),
    ),
    case(
        "a-softer-mask-in-gpt-neo",
        net("gpt-neo-dynamo"),
        tol(
            "Where(u, z, low)", "Where(u, z, k(-1e4, 'f4'))", "num(low) < -1e38 and not num(z)"
        ),
        input_ids=ids(1, 6),
        attention_mask=np.array([[0, 0, 0, 1, 1, 1]], I8),
    ),
)
LOOSE = (
    "LayerNormalization(x, s, _outputs=['n'])",
    "LayerNormalization(x, s, epsilon=5e-5)",
    "at(n, 'epsilon') is None",
)
TANH = (
    "Gelu(x, _outputs=['g'])",
    "Gelu(x, approximate='tanh')",
    "at(g, 'approximate') is None",
)
VERDICTS: list[Case] = kind(
    "a verdict that depends on the size",
    True,
    case(
        "weights-of-a-large-matmul",
        "$BIG { h = MatMul(x, w) y = Relu(h) } | w 1024x2048",
        edit(scaled(1 + 1e-5, "w"), TOL),
        x=rnd(256, 1024),
    ),
    case(
        "weights-of-a-small-matmul",
        "$NX { h = MatMul(x, w) y = Relu(h) } | w 8x8",
        edit(scaled(1 + 1e-5, "w"), TOL),
        x=rnd(2, 8),
    ),
    case(
        "weights-of-a-large-convolution",
        "(float[1,64,64,64] x) => (float[1,64,64,64] y) $CONV 64x64x3x3",
        edit(scaled(1 + 5e-6, "w"), TOL),
        x=rnd(1, 64, 64, 64),
    ),
    case(
        "weights-of-a-small-convolution",
        "(float[1,4,6,6] x) => (float[1,4,6,6] y) $CONV 4x4x3x3",
        edit(scaled(1 + 5e-6, "w"), TOL),
        x=rnd(1, 4, 6, 6),
    ),
    case(
        "epsilon-of-a-large-normalisation",
        "(float[4096,1024,8] x) => (float[4096,1024,8] y) $NORM",
        tol(*LOOSE),
        x=rnd(4096, 1024, 8),
    ),
    case("epsilon-of-a-small-normalisation", "$NX $NORM", tol(*LOOSE), x=rnd(2, 8)),
    case(
        "large-gelu-by-tanh",
        "(float[1024,8192] x) => (float[1024,8192] y) { g = Gelu(x) y = Neg(g) }",
        tol(*TANH),
        x=rnd(1024, 8192),
    ),
    case("small-gelu-by-tanh", "$NX { g = Gelu(x) y = Neg(g) }", tol(*TANH), x=rnd(2, 8)),
    case(
        "weights-of-a-unet",
        net("unet-dynamo"),
        edit(scaled(1 + 2e-5, "joined.1.0.weight"), TOL),
        x0=rnd(1, 3, 64, 64),
    ),
    case(
        "weights-of-a-speech-network",
        net("wav2vec2-dynamo"),
        edit(
            scaled(1 + 1e-4, "model.wav2vec2.feature_extractor.conv_layers.1.conv.weight"), TOL
        ),
        input_values=rnd(1, 8000),
    ),
)
RIGHT: list[Case] = kind(
    "right passes that were refused",
    False,
    case(
        "log-of-a-sum-of-exponentials",
        "(float[N,8] x) => (float[N,1] y) <int64[1] ax = {1}> { e = Exp(x) s = ReduceSum(e, "
        "ax) y = Log(s) }",
        tol("Log(ReduceSum(Exp(x), ax))", "ReduceLogSumExp(x, ax)"),
        x=rnd(3, 8),
    ),
    case(
        "log-of-a-sigmoid",
        "$NX { s = Sigmoid(x) y = Log(s) }",
        tol("Log(Sigmoid(x))", "Neg(Softplus(Neg(x)))"),
        x=rnd(3, 8),
    ),
    case(
        "exponentials-by-their-sum",
        "$NX <int64[1] ax = {1}> { e = Exp(x) s = ReduceSum(e, ax) y = Div(e, s) }",
        tol("Div((e := Exp(x)), ReduceSum(e, ax))", "Softmax(x, axis=-1)"),
        x=rnd(3, 8),
    ),
    case(
        "log-of-a-softmax",
        "$NX { h = MatMul(x, w) s = Softmax<axis = -1>(h) y = Log(s) } | w 8x8",
        tol("Log(Softmax(x, axis=-1))", "LogSoftmax(x, axis=-1)"),
        x=rnd(3, 8),
    ),
    case(
        "norm-in-half-precision",
        "(float16[N,8] x) => (float16[N,1] y) <int64[1] ax = {1}> { q = Mul(x, x) s = "
        "ReduceSum(q, ax) y = Sqrt(s) }",
        tol("Sqrt(ReduceSum(Mul(x, x), ax))", "ReduceL2(x, ax)"),
        x=rnd(3, 8, dtype=np.float16),
    ),
    case(
        "random-numbers-of-a-known-shape",
        "(float[4,8] x) => (float[4,8] y) { r = RandomUniformLike(x) y = Add(x, r) }",
        eq("RandomUniformLike(x)", "RandomUniform(shape=[4, 8])"),
    ),
    case(
        "largest-of-a-dynamic-axis",
        "(float[N,8] x) => (int64[8] y) <int64 one = {1}> { i = ArgMax<axis = 0, keepdims = "
        "0>(x) y = Add(i, one) }",
        eq(
            "ArgMax(x, axis=0, keepdims=0)",
            "Squeeze(TopK(x, k([1]), axis=0, _outputs=2)[1], k([0]))",
        ),
        x=rnd(3, 8),
    ),
    case(
        "tanh-by-exponentials",
        "$NX { e = Exp(x) n = Neg(x) f = Exp(n) a = Sub(e, f) b = Add(e, f) y = Div(a, b) }",
        tol("Div(Sub((a := Exp(x)), (b := Exp(Neg(x)))), Add(a, b))", "Tanh(x)"),
        x=rnd(3, 8),
    ),
    case(
        "scale-in-half-precision",
        "$HX { t = MatMul(x, w) d = Div(t, c) s = Softmax<axis = -1>(d) y = Sub(s, x) } | w "
        "8x8 float16, c 8.0 float16",
        eq("Div(x, c)", "Mul(x, k(1 / num(c)))"),
        x=rnd(3, 8, dtype=np.float16),
    ),
    case(
        "hard-swish-in-half-precision",
        net("half-images-dynamo"),
        tol("HardSwish(x)", "Mul(x, HardSigmoid(x, alpha=1 / 6, beta=0.5))"),
        x0=rnd(1, 3, 32, 32, scale=60, shift=128),
    ),
)
FOLD = "(num(s) / np.sqrt(num(v) + np.float32(at(y, 'epsilon', 1e-5))))"
ADVERSARIAL: list[Case] = kind(
    "right passes refused with adversarial inputs",
    False,
    case(
        "convolution-and-normalisation",
        "$PICTURE <float[4] s = {1.5, 0.5, 2, 1}, float[4] h = {0.1, -0.3, 0.5, 1}, float[4] "
        "e = {0.3, 0.2, -0.7, 0.5}, float[4] v = {1.3, 0.4, 0.9, 2}> { a = Conv(x, w, b) y = "
        "BatchNormalization(a, s, h, e, v) } | w 4x4x3x3, b 4",
        tol(
            "BatchNormalization(Conv(x, w, b, _outputs=['a']), s, h, e, v, _outputs=['y'])",
            f"Conv(x, k(num(w) * {FOLD}[:, None, None, None]), "
            f"k((num(b) - num(e)) * {FOLD} + num(h)), **attrs(a))",
        ),
        x=rnd(1, 4, 8, 8),
    ),
    case(
        "gelu-by-erf",
        "$NX <float r = {1.4142135}, float one = {1.0}, float half = {0.5}> { d = Div(x, r) "
        "e = Erf(d) a = Add(e, one) p = Mul(x, a) y = Mul(p, half) }",
        tol("Mul(Mul(x, Add(Erf(Div(x, r)), one)), half)", "Gelu(x)"),
        x=rnd(3, 8),
    ),
    case(
        "layer-normalisation-by-parts",
        "$NX <int64[1] ax = {-1}, float two = {2.0}, float eps = {0.00001}> { e = "
        "ReduceMean(x, ax) d = Sub(x, e) q = Pow(d, two) v = ReduceMean(q, ax) a = Add(v, "
        "eps) r = Sqrt(a) n = Div(d, r) p = Mul(n, g) y = Add(p, b) } | g 8, b 8",
        tol(
            "Add(Mul(Div((d := Sub(x, ReduceMean(x, ax))), "
            "Sqrt(Add(ReduceMean(Pow(d, two), ax), eps))), g), b)",
            "LayerNormalization(x, g, b, epsilon=float(num(eps)))",
        ),
        x=rnd(3, 8),
    ),
    case(
        "reciprocal-roots-of-qwen",
        net("qwen3-dynamo"),
        tol("Mul(x, Reciprocal(s))", "Div(x, s)"),
        input_ids=ids(1, 8),
        attention_mask=np.ones((1, 8), I8),
    ),
    case(
        "softmax-by-parts",
        "$NX <int64[1] ax = {1}> { t = ReduceMax(x, ax) d = Sub(x, t) e = Exp(d) s = "
        "ReduceSum(e, ax) y = Div(e, s) }",
        tol(
            "Div((e := Exp(Sub(x, ReduceMax(x, ax)))), ReduceSum(e, ax))",
            "Softmax(x, axis=-1)",
        ),
        x=rnd(3, 8),
    ),
    case(
        "scale-of-attention-moved",
        "(float[N,T,8] q, float[N,T,8] h) => (float[N,T,T] y) <float c = {0.3535534}> { t = "
        "Transpose<perm = [0, 2, 1]>(h) s = MatMul(q, t) p = Mul(s, c) y = Softmax<axis = "
        "-1>(p) }",
        tol("Mul(MatMul(q, t), c)", "MatMul(Mul(q, c), t)"),
        q=rnd(1, 5, 8),
        h=rnd(1, 5, 8),
    ),
    case(
        "two-factors-as-one",
        "$NX { p = Mul(x, a) q = Mul(p, b) y = Add(q, x) } | a 8, b 8",
        tol("Mul(Mul(x, a), b)", "Mul(x, k(num(a) * num(b)))"),
        x=rnd(3, 8),
    ),
    case(
        "two-matrices-as-one",
        "$NX { p = MatMul(x, a) y = MatMul(p, b) } | a 8x16, b 16x8",
        tol("MatMul(MatMul(x, a), b)", "MatMul(x, k(num(a) @ num(b)))"),
        x=rnd(3, 8),
    ),
    case(
        "quotients-of-a-speech-network",
        net("wav2vec2-dynamo"),
        tol("Erf(Div(x, r))", "Erf(Mul(x, k(1 / num(r))))"),
        input_values=rnd(1, 8000),
    ),
    case(
        "pool-for-a-mean-in-shufflenet",
        net("shufflenet-dynamo"),
        tol("ReduceMean(x, ax, keepdims=0)", "Flatten(GlobalAveragePool(x))"),
        x=rnd(1, 3, 96, 96),
    ),
)
ORDINARY: list[Case] = kind(
    "ordinary mistakes of engineers",
    True,
    case(
        "bias-of-rows-becomes-one-of-columns",
        "(float[8,8] x, float[8] b) => (float[8,8] y) <int64[1] ax = {1}> { u = Unsqueeze(b, "
        "ax) a = Add(x, u) y = Relu(a) }",
        eq("Add(x, Unsqueeze(b, ax))", "Add(x, b)"),
        x=rnd(8, 8),
        b=rnd(8),
    ),
    case(
        "an-attribute-of-a-gru-is-lost",
        net("gru-torchscript"),
        edit(lambda model: [n.attributes.pop("linear_before_reset", 0) for n in model.graph]),
        words=ids(1, 24),
    ),
    case(
        "normaliser-without-keepdims",
        "(float[8,8] x) => (float[8,8] y) <int64[1] ax = {1}> { e = Exp(x) s = ReduceSum(e, "
        "ax) y = Div(e, s) }",
        eq(
            "Div(e, ReduceSum(e, ax, _outputs=['s']))",
            "Div(e, ReduceSum(e, ax, keepdims=0))",
            "at(s, 'keepdims') is None",
        ),
        x=rnd(8, 8),
    ),
    case(
        "permutation-in-place-of-its-inverse",
        "(float[4,4,4] x) => (float[4,4,4] y) { t = Transpose<perm = [1, 2, 0]>(x) a = "
        "Add(t, c) y = Transpose<perm = [2, 0, 1]>(a) } | c 4x4x4",
        eq(
            "Transpose(Add(Transpose(x, _outputs=['t']), c))",
            "Add(x, k(num(c).transpose(at(t, 'perm'))))",
        ),
        x=rnd(4, 4, 4),
    ),
    case(
        "normalisation-folded-without-epsilon",
        "$PICTURE <float[4] s = {1.5, 0.5, 2, 1}, float[4] h = {0.1, -0.3, 0.5, 1}, float[4] "
        "e = {0.3, 0.2, -0.7, 0.5}, float[4] v = {1.3, 0.4, 0.9, 2}> { a = Conv(x, w, b) y = "
        "BatchNormalization<epsilon = 0.001>(a, s, h, e, v) } | w 4x4x3x3, b 4",
        tol(
            "BatchNormalization(Conv(x, w, b, _outputs=['a']), s, h, e, v)",
            "Conv(x, k(num(w) * (num(s) / np.sqrt(num(v)))[:, None, None, None]), "
            "k((num(b) - num(e)) * num(s) / np.sqrt(num(v)) + num(h)), **attrs(a))",
        ),
        x=rnd(1, 4, 8, 8),
    ),
    case(
        "scale-on-the-wrong-side",
        "$NX { p = Mul(x, s) h = MatMul(p, w) y = Relu(h) } | s 8, w 8x8",
        tol("MatMul(Mul(x, s), w)", "Mul(MatMul(x, w), s)"),
        x=rnd(3, 8),
    ),
    case(
        "pads-in-the-wrong-order",
        "$PICTURE <int64[8] pads = {0, 0, 1, 0, 0, 0, 0, 1}> { p = Pad(x, pads) v = Conv(p, "
        "w) y = Relu(v) } | w 4x4x3x3",
        eq(
            "Conv(Pad(x, pads), w)",
            "Conv(x, w, pads=[int(num(pads)[i]) for i in (3, 2, 7, 6)])",
        ),
        x=rnd(1, 4, 6, 6),
    ),
    case(
        "groups-of-shufflenet-are-not-shuffled",
        net("shufflenet-dynamo"),
        eq("Reshape(Transpose(Reshape(x, a), perm=[0, 2, 1, 3, 4]), b)", "Reshape(x, b)"),
        x=rnd(1, 3, 96, 96),
    ),
    case(
        "integers-overflow-on-the-way",
        "(int32[N] x) => (int32[N] y) <int32 c = {1000}, int32 one = {1}> { p = Mul(x, c) q "
        "= Div(p, c) y = Add(q, one) }",
        eq("Div(Mul(x, c), c)", "Identity(x)"),
        x=np.array([1, 5_000_000, -7], np.int32),
    ),
    case(
        "softmax-of-an-old-opset",
        partial(
            m,
            "(float[N,4,5] x) => (float[N,4,5] y) { s = Softmax<axis = 1>(x) y = Neg(s) }",
            12,
        ),
        tol(
            "Softmax(x, axis=1)",
            "Div(Exp(Sub(x, ReduceMax(x, axes=[1]))), "
            "ReduceSum(Exp(Sub(x, ReduceMax(x, axes=[1]))), axes=[1]))",
        ),
        x=rnd(2, 4, 5),
    ),
    case(
        "bias-of-the-last-axis-as-one-of-channels",
        "(float[N,4,6,4] x) => (float[N,4,6,4] y) { v = Conv<pads = [1, 1, 1, 1]>(x, w) y = "
        "Add(v, b) } | w 4x4x3x3, b 4",
        tol("Add(Conv(x, w, _outputs=['v']), b)", "Conv(x, w, b, **attrs(v))"),
        x=rnd(1, 4, 6, 4),
    ),
    case(
        "sum-in-a-narrow-type",
        "(int32[N] x) => (int64 y) { c = Cast<to = 7>(x) y = ReduceSum<keepdims = 0>(c) }",
        eq("ReduceSum(Cast(x, to=7), keepdims=0)", "Cast(ReduceSum(x, keepdims=0), to=7)"),
        x=np.array([2_000_000_000, 2_000_000_000], np.int32),
    ),
    case(
        "a-negative-axis-of-flatten",
        "(float[N,4,5] x) => (float[P,Q] y) { f = Flatten<axis = -1>(x) y = Abs(f) }",
        eq("Flatten(x, axis=-1)", "Flatten(x, axis=1)"),
        x=rnd(2, 4, 5),
    ),
    case(
        "merged-slices-are-off-by-one",
        "(float[N,12] x) => (float[N,Q] y) <int64[1] a = {2}, int64[1] b = {9}, int64[1] c = "
        "{1}, int64[1] d = {-1}, int64[1] ax = {1}> { t = Slice(x, a, b, ax) s = Slice(t, c, "
        "d, ax) y = Abs(s) }",
        eq("Slice(Slice(x, a, b, ax), c, d, ax)", "Slice(x, Add(a, c), b, ax)"),
        x=rnd(2, 12),
    ),
    case(
        "rotation-of-the-other-half",
        net("qwen3-dynamo"),
        eq("Concat(Neg(a), b, axis=-1)", "Concat(a, Neg(b), axis=-1)"),
        input_ids=ids(1, 8),
        attention_mask=np.ones((1, 8), I8),
    ),
)
EVERYDAY: list[Case] = kind(
    "right everyday passes",
    False,
    case(
        "relu-behind-a-clip",
        "$NX <float lo = {0.5}, float hi = {3.0}> { c = Clip(x, lo, hi) y = Relu(c) }",
        eq("Relu(Clip(x, lo, hi))", "Clip(x, lo, hi)", "num(lo) >= 0"),
        x=rnd(3, 8),
    ),
    case(
        "transposes-merged",
        "(float[N,4,5] x) => (float[5,N,4] y) { a = Transpose<perm = [1, 2, 0]>(x) b = "
        "Transpose<perm = [1, 2, 0]>(a) y = Tanh(b) }",
        eq(
            "Transpose(Transpose(x, _outputs=['a']), _outputs=['b'])",
            "Transpose(x, perm=[at(a, 'perm')[i] for i in at(b, 'perm')])",
        ),
        x=rnd(2, 4, 5),
    ),
    case(
        "reshapes-merged",
        "(float[N,4,6] x) => (float[N,3,8] y) <int64[2] a = {-1, 24}, int64[3] b = {-1, 3, "
        "8}> { r = Reshape(x, a) s = Reshape(r, b) y = Exp(s) }",
        eq("Reshape(Reshape(x, a), b)", "Reshape(x, b)", "(num(b) != 0).all()"),
        x=rnd(2, 4, 6),
    ),
    case(
        "factor-of-one",
        "$NX <float c = {1.0}> { p = Mul(x, c) y = Sin(p) }",
        eq("Mul(x, c)", "Identity(x)", "num(c).ndim == 0 and num(c) == 1"),
        x=rnd(3, 8),
    ),
    case(
        "difference-as-a-sum",
        "$NX { d = Sub(x, c) y = Abs(d) } | c 8",
        eq("Sub(x, c)", "Add(x, k(-num(c)))"),
        x=rnd(3, 8),
    ),
    case(
        "negated-difference",
        "(float[N,8] a, float[N,8] b) => (float[N,8] y) { d = Sub(a, b) y = Neg(d) }",
        eq("Neg(Sub(a, b))", "Sub(b, a)"),
        a=rnd(3, 8),
        b=rnd(3, 8, shift=1),
    ),
    case(
        "one-size-of-a-shape",
        net("distilbert-torchscript"),
        eq(
            "Gather(Shape(x), i, axis=0)",
            "Squeeze(Shape(x, start=int(num(i)), end=int(num(i)) + 1))",
            "num(i).ndim == 0 and num(i) >= 0",
        ),
        input_ids=ids(1, 9),
        attention_mask=np.ones((1, 9), I8),
    ),
    case(
        "sums-of-two-in-a-resnet",
        net("light_resnet50"),
        eq("Sum(a, b)", "Add(a, b)"),
        **{"gpu_0/data_0": rnd(1, 3, 224, 224)},
    ),
    case(
        "relus-behind-a-concat",
        net("light_squeezenet"),
        eq("Concat(Relu(a), Relu(b), axis=1)", "Relu(Concat(a, b, axis=1))"),
        data_0=rnd(1, 3, 224, 224),
    ),
    case(
        "square-as-a-product",
        net("qwen3-dynamo"),
        tol("Pow(x, two)", "Mul(x, x)", "num(two).size == 1 and num(two) == 2"),
        input_ids=ids(1, 8),
        attention_mask=np.ones((1, 8), I8),
    ),
    case(
        "relu-behind-a-pool",
        net("unet-dynamo"),
        eq("MaxPool(Relu(x), _outputs=['p'])", "Relu(MaxPool(x, **attrs(p)))"),
        x0=rnd(1, 3, 64, 64),
    ),
    case(
        "root-and-reciprocal-in-t5",
        net("t5-small-dynamo"),
        tol("Reciprocal(Sqrt(x))", "Div(k(1, 'f4'), Sqrt(x))"),
        input_ids=ids(1, 6),
        attention_mask=np.ones((1, 6), I8),
        decoder_input_ids=ids(1, 4),
    ),
    case(
        "negated-condition-in-deberta",
        net("deberta-dynamo"),
        eq("Where(Not(c), a, b)", "Where(c, b, a)"),
        input_ids=ids(2, 5),
        attention_mask=PADDED,
    ),
    case(
        "product-and-bias-as-gemm",
        "$NX { h = MatMul(x, w) a = Add(h, b) y = Relu(a) } | w 8x8, b 8",
        tol("Add(MatMul(x, w), b)", "Gemm(x, w, b)"),
        x=rnd(3, 8),
    ),
    case(
        "pads-moved-into-a-convolution",
        "$PICTURE <int64[8] pads = {0, 0, 0, 1, 0, 0, 1, 2}> { p = Pad(x, pads) v = Conv(p, "
        "w) y = Relu(v) } | w 4x4x3x3",
        eq(
            "Conv(Pad(x, pads), w)",
            "Conv(x, w, pads=[int(num(pads)[i]) for i in (2, 3, 6, 7)])",
        ),
        x=rnd(1, 4, 6, 6),
    ),
)
CASES = [
    *BODIES,
    *SIZES,
    *THRESHOLDS,
    *ODD,
    *VALUES,
    *MASKS,
    *VERDICTS,
    *RIGHT,
    *ADVERSARIAL,
    *ORDINARY,
    *EVERYDAY,
]
