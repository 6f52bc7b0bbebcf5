"""Faults of onnxscript's rules for Clip, Cast, Slice and the operators around Conv."""

from __future__ import annotations

from benchmarks.certify.findings.finding import Finding

_C = "rules.common:"

ELEMENTWISE: tuple[Finding, ...] = (
    Finding(
        _C + "successive_clip_rule",
        "two Clips whose ranges do not meet become one whose lower bound is above its upper",
        (
            "float[1] x",
            "float[1] y",
            "a = Constant<value = float {0.0}>() b = Constant<value = float {1.0}>() "
            "c = Constant<value = float {2.0}>() d = Constant<value = float {3.0}>() "
            "m = Clip(x, a, b) y = Clip(m, c, d)",
        ),
    ),
    Finding(
        _C + "successive_relu_clip_rule",
        "Relu behind a Clip whose upper bound is negative yields 0, the new Clip that bound",
        (
            "float[1] x",
            "float[1] y",
            "a = Constant<value = float {-5.0}>() b = Constant<value = float {-4.0}>() "
            "m = Clip(x, a, b) y = Relu(m)",
        ),
    ),
    Finding(
        _C + "successive_clip_relu_rule",
        "the bounds of a Clip before opset 11 are attributes; the new node has inputs instead",
        ("float[1] x", "float[1] y", "m = Relu(x) y = Clip<min = 0.5, max = 1.0>(m)"),
        opset=10,
        also=(_C + "successive_relu_clip_rule",),
    ),
    Finding(
        _C + "successive_clip_rule",
        "where types of inner values are not inferred yet, reading them raises AttributeError",
        (
            "float[1] x",
            "float[1] y",
            "a = Constant<value = float {0.0}>() m = Clip(x, a) y = Clip(m, a)",
        ),
        also=(_C + "successive_clip_relu_rule", _C + "successive_relu_clip_rule"),
        inferred=False,
    ),
    Finding(
        _C + "successive_clip_rule",
        "attributes of a Clip before opset 11 are dropped",
        (
            "float[1] x",
            "float[1] y",
            "m = Clip<min = 2.0>(x) y = Clip<max = 3.0>(m)",
        ),
        opset=10,
    ),
    Finding(
        _C + "cast_constant_of_shape_without_value_rule",
        "the pattern also takes a ConstantOfShape that has a value, which becomes 0",
        (
            "",
            "int32[2] y",
            "s = Constant<value_ints = [2]>() c = ConstantOfShape<value = float[1] {5.0}>(s) "
            "y = Cast<to = 6>(c)",
        ),
    ),
    Finding(
        _C + "cast_constant_of_shape_rule",
        "a value that the new type does not hold raises OverflowError; Cast wraps it",
        (
            "",
            "uint8[2] y",
            "s = Constant<value_ints = [2]>() c = ConstantOfShape<value = int64[1] {-1}>(s) "
            "y = Cast<to = 2>(c)",
        ),
    ),
    Finding(
        _C + "slice_split_rule",
        "an odd last axis is cut in the middle by the Slices, and one later by Split",
        (
            "float[5] x",
            "float[2] y, float[3] z",
            "a = Constant<value_ints = [0]>() b = Constant<value_ints = [2]>() "
            "c = Constant<value_ints = [5]>() d = Constant<value_ints = [0]>() "
            "z = Slice(x, b, c, d) y = Slice(x, a, b, d)",
        ),
        {"x": [0, 1, 2, 3, 4]},
    ),
    Finding(
        _C + "slice_split_rule",
        "Split has num_outputs from opset 18 on only; the rule fires before it",
        (
            "float[4] x",
            "float[2] y, float[2] z",
            "a = Constant<value = int64[1] {0}>() b = Constant<value = int64[1] {2}>() "
            "c = Constant<value = int64[1] {4}>() d = Constant<value = int64[1] {0}>() "
            "z = Slice(x, b, c, d) y = Slice(x, a, b, d)",
        ),
        opset=13,
    ),
    Finding(
        _C + "flatten_to_reshape_rule",
        "a 0 in the new shape means the input's axis, so that empty tensors change shape",
        ("float[2,0,3] x", "float[0,3] y", "y = Flatten<axis = 2>(x)"),
    ),
    Finding(
        _C + "conv_affine_fusion_rule",
        "an offset of one element and rank 4 makes a bias of rank 4",
        (
            "float[1,1,1,1] x",
            "float[1,1,1,1] y",
            "w = Constant<value = float[1,1,1,1] {1.0}>() b = Constant<value = "
            "float[1] {1.0}>() "
            "s = Constant<value = float[1,1,1,1] {2.0}>() m = Conv(x, w, b) "
            "n = Mul(m, s) y = Add(n, s)",
        ),
    ),
    Finding(
        _C + "fuse_pad_into_conv_integer_rule",
        "Pad adds zeros, ConvInteger pads with the zero point of its input",
        (
            "uint8[1,1,1] x",
            "int32[1,1,3] y",
            "p = Constant<value = int64[6] {0, 0, 1, 0, 0, 1}>() "
            "w = Constant<value = uint8[1,1,1] {1}>() z = Constant<value = uint8 {3}>() "
            "m = Pad(x, p) y = ConvInteger(m, w, z)",
        ),
    ),
    Finding(
        _C + "fuse_pad_into_conv_rule",
        "before opset 11 the pads are an attribute; reading them as an input raises "
        "IndexError",
        (
            "float[1,1,1] x",
            "float[1,1,3] y",
            "w = Constant<value = float[1,1,1] {1.0}>() "
            "m = Pad<pads = [0, 0, 1, 0, 0, 1]>(x) y = Conv(m, w)",
        ),
        opset=10,
    ),
    Finding(
        _C + "gemm_to_matmul_add_rule",
        "transA and transB, which the pattern does not mention, are dropped",
        (
            "float[2,2] x, float[2,2] w, float[2] b",
            "float[2,2] y",
            "s = Constant<value_ints = [2, 2]>() m = Reshape(x, s) "
            "n = Gemm<alpha = 1.0, beta = 1.0, transB = 1>(m, w, b) y = Reshape(n, s)",
        ),
        {"x": [[1, 0], [0, 0]], "w": [[1, 2], [3, 4]]},
    ),
    Finding(
        _C + "gemm_to_matmul_add_rule",
        "the bias of the Gemm on flattened rows is added to the unflattened product",
        (
            "float[2,1,2] x, float[2,2] w, float[2,2] b",
            "float[2,1,2] y",
            "s = Constant<value_ints = [2, 2]>() t = Constant<value_ints = [2, 1, 2]>() "
            "m = Reshape(x, s) n = Gemm<alpha = 1.0, beta = 1.0>(m, w, b) y = Reshape(n, t)",
        ),
    ),
)
