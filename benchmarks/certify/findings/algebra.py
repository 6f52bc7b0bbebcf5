"""Faults of onnxscript's rules for products, bounds, neutral elements and Expand."""

from __future__ import annotations

from benchmarks.certify.findings.finding import Finding

_C = "rules.common:"
_SWISH = "rules.common._fuse_hardswish:fuse_hardswish_rules()"

ALGEBRA: tuple[Finding, ...] = (
    Finding(
        _C + "two_reshapes_matmul_reshape_rule",
        "only the shapes at both ends are compared: a product of other matrices is replaced",
        (
            "float[4,4] x, float[4,4] w",
            "float[4,4] y",
            "s = Constant<value_ints = [4, 2, 2]>() t = Constant<value_ints = [4, 4]>() "
            "m = Reshape(x, s) n = Reshape(w, s) p = MatMul(m, n) y = Reshape(p, t)",
        ),
    ),
    Finding(
        _C + "materialize_reshape_shape_rule",
        "Reshape has allowzero from opset 14 on only; the rule fires before it",
        (
            "float[2] x",
            "float[2] y",
            "s = Constant<value = int64[1] {2}>() t = Identity(s) y = Reshape(x, t)",
        ),
        opset=13,
    ),
    Finding(
        _C + "materialize_reshape_shape_rule",
        "a shape with an empty axis and an unknown one becomes 0 and -1 with allowzero, "
        "which Reshape forbids",
        (
            "float[2,0] x, int64[2] s",
            "float[n,0] y",
            "y = Reshape(x, s)",
        ),
        {"s": [2, 0]},
    ),
    Finding(
        _C + "matmul_add_to_gemm_rule",
        "Gemm does not take a bias that the product is broadcast to",
        (
            "float[1,1] x, float[1,1] w, float[1,2] b",
            "float[1,2] y",
            "m = MatMul(x, w) y = Add(m, b)",
        ),
        also=(
            _C + "transpose_a_matmul_add_to_gemm_rule",
            _C + "transpose_b_matmul_add_to_gemm_rule",
            _C + "transpose_ab_matmul_add_to_gemm_rule",
        ),
    ),
    Finding(
        _C + "min_min_rule",
        "Min(Min(x)) has no constants to fuse: reduce() of an empty list raises TypeError",
        ("float[1] x", "float[1] y", "m = Min(x) y = Min(m)"),
        also=(_C + "max_max_rule",),
    ),
    Finding(
        _C + "max_min_rule",
        "Min(Max(x)) has no bounds: the maximum of an empty list raises ValueError",
        ("float[1] x", "float[1] y", "m = Max(x) y = Min(m)"),
        also=(_C + "min_max_rule",),
    ),
    Finding(
        _C + "max_min_rule",
        "Clip before opset 11 takes its bounds as attributes; the new node has inputs",
        (
            "float[1] x",
            "float[1] y",
            "a = Constant<value = float {0.0}>() b = Constant<value = float {1.0}>() "
            "m = Max(x, a) y = Min(m, b)",
        ),
        opset=10,
        also=(_C + "min_max_rule",),
    ),
    Finding(
        _C + "max_min_rule",
        "bounds of shape [1, 1] raise the rank of the result, the new Clip does not",
        (
            "float[1] x",
            "float[1,1] y",
            "a = Constant<value = float[1,1] {0.0}>() b = Constant<value = float[1,1] "
            "{1.0}>() "
            "m = Max(x, a) y = Min(m, b)",
        ),
        also=(_C + "min_max_rule",),
    ),
    Finding(
        _C + "mul_by_1_rule",
        "a factor within 1e-5 of 1 is read as 1, which differs in double and float",
        (
            "double[1] x",
            "double[1] y",
            "c = Constant<value = double {1.000009}>() y = Mul(x, c)",
        ),
        also=(_C + "div_by_1_rule",),
    ),
    Finding(
        _C + "add_0_rule",
        "an addend within 1e-8 of 0 is taken for 0: Log(0) instead of Log(1e-9)",
        (
            "double[1] x",
            "double[1] y",
            "c = Constant<value = double {0.000000009}>() m = Add(x, c) y = Log(m)",
        ),
        {"x": 0.0},
        also=(_C + "sub_0_rule",),
    ),
    Finding(
        _C + "no_op_static_scatter_nd_rule",
        "a reduction, which the pattern does not mention, is dropped",
        (
            "float[1] x, float[1] u",
            "float[1] y",
            'i = Constant<value = int64[1,1] {0}>() y = ScatterND<reduction = "add">(x, i, u)',
        ),
    ),
    Finding(
        _C + "expand_before_binary_op_rules[0]",
        "an Expand to [1, 1] raises the rank; without it the result is of rank 1",
        (
            "float[1] x, float[1] z",
            "float[1,1] y",
            "s = Constant<value_ints = [1, 1]>() m = Expand(x, s) y = Add(m, z)",
        ),
        also=(_C + "expand_before_binary_op_rules[1..37]",),
    ),
    Finding(
        _C + "expand_before_binary_op_rules[4]",
        "the attribute direction of BitShift is dropped, which is required",
        (
            "uint8[1] x, uint8[1] z",
            "uint8[1] y",
            "s = Constant<value_ints = [1]>() m = Expand(x, s) y = BitShift<direction "
            '= "LEFT">(m, z)',
        ),
        also=(_C + "expand_before_binary_op_rules[5]",),
    ),
    Finding(
        _C + "expand_before_binary_op_rules[24]",
        "the attribute fmod of Mod is dropped: the sign of the result changes, or floats fail",
        (
            "float[1] x, float[1] z",
            "float[1] y",
            "s = Constant<value_ints = [1]>() m = Expand(x, s) y = Mod<fmod = 1>(m, z)",
        ),
        {"x": -5.0, "z": 3.0},
        also=(_C + "expand_before_binary_op_rules[25]",),
    ),
    Finding(
        _C + "remove_optional_bias_from_gemm_rule",
        "Gemm needs its bias before opset 11",
        (
            "float[1,1] x, float[1,1] w",
            "float[1,1] y",
            "b = Constant<value = float[1] {0.0}>() y = Gemm(x, w, b)",
        ),
        opset=9,
    ),
    Finding(
        _SWISH + "[0]",
        "integers are fused as well, for which HardSwish is not defined",
        (
            "int32[1] x",
            "int32[1] y",
            "a = Constant<value = int32 {3}>() b = Constant<value = int32 {0}>() "
            "c = Constant<value = int32 {6}>() m = Add(x, a) n = Clip(m, b, c) "
            "p = Mul(n, x) y = Div(p, c)",
        ),
    ),
    Finding(
        _SWISH + "[0]",
        "HardSwish exists from opset 14 on only; the rule fires before it",
        (
            "float[1] x",
            "float[1] y",
            "a = Constant<value = float {3.0}>() b = Constant<value = float {0.0}>() "
            "c = Constant<value = float {6.0}>() m = Add(x, a) n = Clip(m, b, c) "
            "p = Mul(n, x) y = Div(p, c)",
        ),
        opset=13,
    ),
)
