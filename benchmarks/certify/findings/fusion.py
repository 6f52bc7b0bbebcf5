"""Faults of onnxscript's fusions."""

from __future__ import annotations

from benchmarks.certify.findings.finding import Finding

_O = "onnxruntime:ORT_PATTERN_REWRITE_RULES"

FUSIONS: tuple[Finding, ...] = (
    Finding(
        "rules.fusion._layer_norm:_layer_norm_with_bias_rule",
        "the operator does not take a bias of higher rank than the normalized axes",
        (
            "float[1,2] x, float[2] w, float[2,2] b",
            "float[2,2] y",
            "m = LayerNormalization(x, w) y = Add(m, b)",
        ),
    ),
    Finding(
        "rules.fusion._layer_norm:_layer_norm_rule",
        "the operator does not take a scale of higher rank than the normalized axis",
        (
            "float[1,2] x, float[2,2] w",
            "float[2,2] y",
            "a = Constant<value_ints = [-1]>() e = Constant<value = float {0.00001}>() "
            "two = Constant<value = float {2.0}>() m = ReduceMean<keepdims = 1>(x, a) "
            "d = Sub(x, m) q = Pow(d, two) v = ReduceMean<keepdims = 1>(q, a) p = Add(v, e) "
            "s = Sqrt(p) n = Div(d, s) y = Mul(n, w)",
        ),
        {"x": [[1.0, 2.0]]},
    ),
    Finding(
        "rules.fusion._rms_normalization:_rule1",
        "RMSNormalization exists from opset 23 on only; the rule fires before it",
        (
            "float[1,2] x, float[2] w",
            "float[1,2] y",
            "a = Constant<value = int64[1] {-1}>() e = Constant<value = float {0.00001}>() "
            "two = Constant<value = float {2.0}>() q = Pow(x, two) "
            "m = ReduceMean<keepdims = 1, noop_with_empty_axes = 0>(q, a) p = Add(m, e) "
            "s = Sqrt(p) r = Reciprocal(s) n = Mul(x, r) y = Mul(n, w)",
        ),
        also=("rules.fusion._rms_normalization:_rule2",),
    ),
    Finding(
        _O + "[1]",
        "a Softmax with an axis matches the pattern without one, and loses it",
        (
            "float16[2,1] x",
            "float16[2,1] y",
            "m = Cast<to = 1>(x) n = Softmax<axis = 0>(m) y = Cast<to = 10>(n)",
        ),
    ),
    Finding(
        _O + "[3]",
        "a divisor of 0 raises ZeroDivisionError; Div yields an infinity",
        (
            "float[1,1] x, float[1,1] w",
            "float[1,1] y",
            "c = Constant<value = float {0.0}>() m = MatMul(x, w) y = Div(m, c)",
        ),
    ),
    Finding(
        _O + "[3]",
        "a divisor of shape [1, 1] raises TypeError",
        (
            "float[1,1] x, float[1,1] w",
            "float[1,1] y",
            "c = Constant<value = float[1,1] {2.0}>() m = MatMul(x, w) y = Div(m, c)",
        ),
        also=(_O + "[4]",),
    ),
    Finding(
        _O + "[3]",
        "integers are fused as well, for which FusedMatMul is not defined",
        (
            "int32[1,1] x, int32[1,1] w",
            "int32[1,1] y",
            "c = Constant<value = int32 {2}>() m = MatMul(x, w) y = Div(m, c)",
        ),
    ),
    Finding(
        _O + "[6]",
        "integers are fused as well, for which FusedMatMul is not defined",
        (
            "int32[1,1] x, int32[1,1] w",
            "int32[1,1] y",
            "m = MatMul(x, w) y = Transpose<perm = [1, 0]>(m)",
        ),
        also=(_O + "[7]", _O + "[9]"),
    ),
    Finding(
        _O + "[11]",
        "a Transpose without perm is valid, and raises KeyError",
        (
            "float[1,1] x, float[1,1] w",
            "float[1,1] y",
            "m = Transpose(x) y = com.microsoft.FusedMatMul(m, w)",
        ),
        also=tuple(f"{_O}[{k}]" for k in range(12, 17)),
    ),
    Finding(
        _O + "[7]",
        "a Transpose of a vector has no last two axes: reading them raises IndexError",
        (
            "float[2] x, float[2,1] w",
            "float[1] y",
            "m = Transpose<perm = [0]>(x) y = MatMul(m, w)",
        ),
        also=(_O + "[8]", _O + "[9]", _O + "[10]"),
    ),
    Finding(
        "ort_fusions.bias_gelu:bias_gelu_rules[0]",
        "a bias of one element is broadcast by Add, and refused by BiasGelu",
        (
            "float[1,2] x, float[1] b",
            "float[1,2] y",
            "m = Add(x, b) y = Gelu(m)",
        ),
        opset=20,
        also=("ort_fusions.bias_gelu:bias_gelu_rules[2]",),
    ),
    Finding(
        "ort_fusions.gelu:_tanh_rule",
        "FastGelu refuses a scalar, which all of the fused operators take",
        (
            "float x",
            "float y",
            "three = Constant<value = float {3.0}>() a = Constant<value = float {0.044715}>() "
            "b = Constant<value = float {0.7978845608}>() one = Constant<value = float "
            "{1.0}>() "
            "half = Constant<value = float {0.5}>() t1 = Pow(x, three) t2 = Mul(a, t1) "
            "t3 = Add(x, t2) t4 = Mul(b, t3) t5 = Tanh(t4) t6 = Add(t5, one) "
            "t7 = Mul(half, t6) y = Mul(x, t7)",
        ),
    ),
    Finding(
        "ort_fusions.skip_normalization:_skip_layer_rule",
        "doubles are fused as well, for which SkipLayerNormalization is not defined",
        (
            "double[1,1,2] x, double[1,1,2] z, double[2] g, double[2] b",
            "double[1,1,2] y, double[1,1,2] s",
            "s = Add(x, z) y = LayerNormalization<axis = -1>(s, g, b)",
        ),
    ),
    Finding(
        "ort_fusions.shape_optimization:rules[0]",
        "a -1 among the dimensions is passed on, where Shape yields the size that it means",
        (
            "float[4] x, int64[1] a, int64[1] b, int64[1] c, int64[1] d",
            "int64[1] y",
            "k = Constant<value_ints = [3]>() l = Constant<value_ints = [4]>() "
            "s = Concat<axis = 0>(a, b, c, d) r = Reshape<allowzero = 1>(x, s) "
            "t = Transpose<perm = [0, 2, 1, 3]>(r) z = Shape(t) y = Slice(z, k, l)",
        ),
        {"d": [-1]},
    ),
)
