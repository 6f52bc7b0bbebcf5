"""The faults, in the text form of :func:`benchmarks.faults.form.entries`."""

TEXT = """
rules.common:successive_clip_rule: two Clips whose ranges do not meet become one whose lower
  bound is above its upper
model (float[1] x) => (float[1] y) { a = Constant<value = float {0.0}>()
  b = Constant<value = float {1.0}>() c = Constant<value = float {2.0}>()
  d = Constant<value = float {3.0}>() m = Clip(x, a, b) y = Clip(m, c, d) }

rules.common:successive_relu_clip_rule: Relu behind a Clip whose upper bound is negative
  yields 0, the new Clip that bound
model (float[1] x) => (float[1] y) { a = Constant<value = float {-5.0}>()
  b = Constant<value = float {-4.0}>() m = Clip(x, a, b) y = Relu(m) }

rules.common:successive_clip_relu_rule: the bounds of a Clip before opset 11 are attributes;
  the new node has inputs instead
model (float[1] x) => (float[1] y) { m = Relu(x) y = Clip<min = 0.5, max = 1.0>(m) }
opset 10
also rules.common:successive_relu_clip_rule

rules.common:successive_clip_rule: where types of inner values are not inferred yet, reading
  them raises AttributeError
model (float[1] x) => (float[1] y) { a = Constant<value = float {0.0}>() m = Clip(x, a)
  y = Clip(m, a) }
also rules.common:successive_clip_relu_rule, rules.common:successive_relu_clip_rule
inferred no

rules.common:successive_clip_rule: attributes of a Clip before opset 11 are dropped
model (float[1] x) => (float[1] y) { m = Clip<min = 2.0>(x) y = Clip<max = 3.0>(m) }
opset 10

rules.common:cast_constant_of_shape_without_value_rule: the pattern also takes a
  ConstantOfShape that has a value, which becomes 0
model () => (int32[2] y) { s = Constant<value_ints = [2]>()
  c = ConstantOfShape<value = float[1] {5.0}>(s) y = Cast<to = 6>(c) }

rules.common:cast_constant_of_shape_rule: a value that the new type does not hold raises
  OverflowError; Cast wraps it
model () => (uint8[2] y) { s = Constant<value_ints = [2]>()
  c = ConstantOfShape<value = int64[1] {-1}>(s) y = Cast<to = 2>(c) }

rules.common:slice_split_rule: an odd last axis is cut in the middle by the Slices, and one
  later by Split
model (float[5] x) => (float[2] y, float[3] z) { a = Constant<value_ints = [0]>()
  b = Constant<value_ints = [2]>() c = Constant<value_ints = [5]>()
  d = Constant<value_ints = [0]>() z = Slice(x, b, c, d) y = Slice(x, a, b, d) }
feed x=[0, 1, 2, 3, 4]

rules.common:slice_split_rule: Split has num_outputs from opset 18 on only;
  the rule fires before it
model (float[4] x) => (float[2] y, float[2] z) { a = Constant<value = int64[1] {0}>()
  b = Constant<value = int64[1] {2}>() c = Constant<value = int64[1] {4}>()
  d = Constant<value = int64[1] {0}>() z = Slice(x, b, c, d) y = Slice(x, a, b, d) }
opset 13

rules.common:flatten_to_reshape_rule: a 0 in the new shape means the input's axis, so that
  empty tensors change shape
model (float[2,0,3] x) => (float[0,3] y) { y = Flatten<axis = 2>(x) }

rules.common:conv_affine_fusion_rule: an offset of one element and rank 4 makes a bias of
  rank 4
model (float[1,1,1,1] x) => (float[1,1,1,1] y) { w = Constant<value = float[1,1,1,1] {1.0}>()
  b = Constant<value = float[1] {1.0}>() s = Constant<value = float[1,1,1,1] {2.0}>()
  m = Conv(x, w, b) n = Mul(m, s) y = Add(n, s) }

rules.common:fuse_pad_into_conv_integer_rule: Pad adds zeros, ConvInteger pads with the zero
  point of its input
model (uint8[1,1,1] x) => (int32[1,1,3] y) { p = Constant<value = int64[6] {0, 0, 1, 0, 0,
  1}>() w = Constant<value = uint8[1,1,1] {1}>() z = Constant<value = uint8 {3}>()
  m = Pad(x, p) y = ConvInteger(m, w, z) }

rules.common:fuse_pad_into_conv_rule: before opset 11 the pads are an attribute;
  reading them as an input raises IndexError
model (float[1,1,1] x) => (float[1,1,3] y) { w = Constant<value = float[1,1,1] {1.0}>()
  m = Pad<pads = [0, 0, 1, 0, 0, 1]>(x) y = Conv(m, w) }
opset 10

rules.common:gemm_to_matmul_add_rule: transA and transB, which the pattern does not mention,
  are dropped
model (float[2,2] x, float[2,2] w, float[2] b) => (float[2,2] y) {
  s = Constant<value_ints = [2, 2]>() m = Reshape(x, s) n = Gemm<alpha = 1.0, beta = 1.0,
  transB = 1>(m, w, b) y = Reshape(n, s) }
feed x=[[1, 0], [0, 0]], w=[[1, 2], [3, 4]]

rules.common:gemm_to_matmul_add_rule: the bias of the Gemm on flattened rows is added to the
  unflattened product
model (float[2,1,2] x, float[2,2] w, float[2,2] b) => (float[2,1,2] y) {
  s = Constant<value_ints = [2, 2]>() t = Constant<value_ints = [2, 1, 2]>()
  m = Reshape(x, s) n = Gemm<alpha = 1.0, beta = 1.0>(m, w, b) y = Reshape(n, t) }

rules.common:two_reshapes_matmul_reshape_rule: only the shapes at both ends are compared: a
  product of other matrices is replaced
model (float[4,4] x, float[4,4] w) => (float[4,4] y) { s = Constant<value_ints = [4, 2, 2]>()
  t = Constant<value_ints = [4, 4]>() m = Reshape(x, s) n = Reshape(w, s) p = MatMul(m, n)
  y = Reshape(p, t) }

rules.common:materialize_reshape_shape_rule: Reshape has allowzero from opset 14 on only;
  the rule fires before it
model (float[2] x) => (float[2] y) { s = Constant<value = int64[1] {2}>() t = Identity(s)
  y = Reshape(x, t) }
opset 13

rules.common:materialize_reshape_shape_rule: a shape with an empty axis and an unknown one
  becomes 0 and -1 with allowzero, which Reshape forbids
model (float[2,0] x, int64[2] s) => (float[n,0] y) { y = Reshape(x, s) }
feed s=[2, 0]

rules.common:matmul_add_to_gemm_rule: Gemm does not take a bias that the product is broadcast
  to
model (float[1,1] x, float[1,1] w, float[1,2] b) => (float[1,2] y) { m = MatMul(x, w)
  y = Add(m, b) }
also rules.common:transpose_a_matmul_add_to_gemm_rule,
  rules.common:transpose_b_matmul_add_to_gemm_rule,
  rules.common:transpose_ab_matmul_add_to_gemm_rule

rules.common:min_min_rule: Min(Min(x)) has no constants to fuse: reduce() of an empty list
  raises TypeError
model (float[1] x) => (float[1] y) { m = Min(x) y = Min(m) }
also rules.common:max_max_rule

rules.common:max_min_rule: Min(Max(x)) has no bounds: the maximum of an empty list raises
  ValueError
model (float[1] x) => (float[1] y) { m = Max(x) y = Min(m) }
also rules.common:min_max_rule

rules.common:max_min_rule: Clip before opset 11 takes its bounds as attributes;
  the new node has inputs
model (float[1] x) => (float[1] y) { a = Constant<value = float {0.0}>()
  b = Constant<value = float {1.0}>() m = Max(x, a) y = Min(m, b) }
opset 10
also rules.common:min_max_rule

rules.common:max_min_rule: bounds of shape [1, 1] raise the rank of the result, the new Clip
  does not
model (float[1] x) => (float[1,1] y) { a = Constant<value = float[1,1] {0.0}>()
  b = Constant<value = float[1,1] {1.0}>() m = Max(x, a) y = Min(m, b) }
also rules.common:min_max_rule

rules.common:mul_by_1_rule: a factor within 1e-5 of 1 is read as 1, which differs in double
  and float
model (double[1] x) => (double[1] y) { c = Constant<value = double {1.000009}>()
  y = Mul(x, c) }
also rules.common:div_by_1_rule

rules.common:add_0_rule: an addend within 1e-8 of 0 is taken for 0: Log(0) instead of
  Log(1e-9)
model (double[1] x) => (double[1] y) { c = Constant<value = double {0.000000009}>()
  m = Add(x, c) y = Log(m) }
feed x=0.0
also rules.common:sub_0_rule

rules.common:no_op_static_scatter_nd_rule: a reduction, which the pattern does not mention,
  is dropped
model (float[1] x, float[1] u) => (float[1] y) { i = Constant<value = int64[1,1] {0}>()
  y = ScatterND<reduction = "add">(x, i, u) }

rules.common:expand_before_binary_op_rules[0]: an Expand to [1, 1] raises the rank;
  without it the result is of rank 1
model (float[1] x, float[1] z) => (float[1,1] y) { s = Constant<value_ints = [1, 1]>()
  m = Expand(x, s) y = Add(m, z) }
also rules.common:expand_before_binary_op_rules[1..37]

rules.common:expand_before_binary_op_rules[4]: the attribute direction of BitShift is
  dropped, which is required
model (uint8[1] x, uint8[1] z) => (uint8[1] y) { s = Constant<value_ints = [1]>()
  m = Expand(x, s) y = BitShift<direction = "LEFT">(m, z) }
also rules.common:expand_before_binary_op_rules[5]

rules.common:expand_before_binary_op_rules[24]: the attribute fmod of Mod is dropped: the
  sign of the result changes, or floats fail
model (float[1] x, float[1] z) => (float[1] y) { s = Constant<value_ints = [1]>()
  m = Expand(x, s) y = Mod<fmod = 1>(m, z) }
feed x=-5.0, z=3.0
also rules.common:expand_before_binary_op_rules[25]

rules.common:remove_optional_bias_from_gemm_rule: Gemm needs its bias before opset 11
model (float[1,1] x, float[1,1] w) => (float[1,1] y) { b = Constant<value = float[1] {0.0}>()
  y = Gemm(x, w, b) }
opset 9

rules.common._fuse_hardswish:fuse_hardswish_rules()[0]: integers are fused as well, for which
  HardSwish is not defined
model (int32[1] x) => (int32[1] y) { a = Constant<value = int32 {3}>()
  b = Constant<value = int32 {0}>() c = Constant<value = int32 {6}>() m = Add(x, a)
  n = Clip(m, b, c) p = Mul(n, x) y = Div(p, c) }

rules.common._fuse_hardswish:fuse_hardswish_rules()[0]: HardSwish exists from opset 14 on
  only; the rule fires before it
model (float[1] x) => (float[1] y) { a = Constant<value = float {3.0}>()
  b = Constant<value = float {0.0}>() c = Constant<value = float {6.0}>() m = Add(x, a)
  n = Clip(m, b, c) p = Mul(n, x) y = Div(p, c) }
opset 13

rules.fusion._layer_norm:_layer_norm_with_bias_rule: the operator does not take a bias of
  higher rank than the normalized axes
model (float[1,2] x, float[2] w, float[2,2] b) => (float[2,2] y) {
  m = LayerNormalization(x, w) y = Add(m, b) }

rules.fusion._layer_norm:_layer_norm_rule: the operator does not take a scale of higher rank
  than the normalized axis
model (float[1,2] x, float[2,2] w) => (float[2,2] y) { a = Constant<value_ints = [-1]>()
  e = Constant<value = float {0.00001}>() two = Constant<value = float {2.0}>()
  m = ReduceMean<keepdims = 1>(x, a) d = Sub(x, m) q = Pow(d, two)
  v = ReduceMean<keepdims = 1>(q, a) p = Add(v, e) s = Sqrt(p) n = Div(d, s) y = Mul(n, w) }
feed x=[[1.0, 2.0]]

rules.fusion._rms_normalization:_rule1: RMSNormalization exists from opset 23 on only;
  the rule fires before it
model (float[1,2] x, float[2] w) => (float[1,2] y) { a = Constant<value = int64[1] {-1}>()
  e = Constant<value = float {0.00001}>() two = Constant<value = float {2.0}>()
  q = Pow(x, two) m = ReduceMean<keepdims = 1, noop_with_empty_axes = 0>(q, a) p = Add(m, e)
  s = Sqrt(p) r = Reciprocal(s) n = Mul(x, r) y = Mul(n, w) }
also rules.fusion._rms_normalization:_rule2

onnxruntime:ORT_PATTERN_REWRITE_RULES[1]: a Softmax with an axis matches the pattern without
  one, and loses it
model (float16[2,1] x) => (float16[2,1] y) { m = Cast<to = 1>(x) n = Softmax<axis = 0>(m)
  y = Cast<to = 10>(n) }

onnxruntime:ORT_PATTERN_REWRITE_RULES[3]: a divisor of 0 raises ZeroDivisionError;
  Div yields an infinity
model (float[1,1] x, float[1,1] w) => (float[1,1] y) { c = Constant<value = float {0.0}>()
  m = MatMul(x, w) y = Div(m, c) }

onnxruntime:ORT_PATTERN_REWRITE_RULES[3]: a divisor of shape [1, 1] raises TypeError
model (float[1,1] x, float[1,1] w) => (float[1,1] y) { c = Constant<value = float[1,1]
  {2.0}>() m = MatMul(x, w) y = Div(m, c) }
also onnxruntime:ORT_PATTERN_REWRITE_RULES[4]

onnxruntime:ORT_PATTERN_REWRITE_RULES[3]: integers are fused as well, for which FusedMatMul
  is not defined
model (int32[1,1] x, int32[1,1] w) => (int32[1,1] y) { c = Constant<value = int32 {2}>()
  m = MatMul(x, w) y = Div(m, c) }

onnxruntime:ORT_PATTERN_REWRITE_RULES[6]: integers are fused as well, for which FusedMatMul
  is not defined
model (int32[1,1] x, int32[1,1] w) => (int32[1,1] y) { m = MatMul(x, w)
  y = Transpose<perm = [1, 0]>(m) }
also onnxruntime:ORT_PATTERN_REWRITE_RULES[7], onnxruntime:ORT_PATTERN_REWRITE_RULES[9]

onnxruntime:ORT_PATTERN_REWRITE_RULES[11]: a Transpose without perm is valid, and raises
  KeyError
model (float[1,1] x, float[1,1] w) => (float[1,1] y) { m = Transpose(x)
  y = com.microsoft.FusedMatMul(m, w) }
also onnxruntime:ORT_PATTERN_REWRITE_RULES[12], onnxruntime:ORT_PATTERN_REWRITE_RULES[13],
  onnxruntime:ORT_PATTERN_REWRITE_RULES[14], onnxruntime:ORT_PATTERN_REWRITE_RULES[15],
  onnxruntime:ORT_PATTERN_REWRITE_RULES[16]

onnxruntime:ORT_PATTERN_REWRITE_RULES[7]: a Transpose of a vector has no last two axes:
  reading them raises IndexError
model (float[2] x, float[2,1] w) => (float[1] y) { m = Transpose<perm = [0]>(x)
  y = MatMul(m, w) }
also onnxruntime:ORT_PATTERN_REWRITE_RULES[8], onnxruntime:ORT_PATTERN_REWRITE_RULES[9],
  onnxruntime:ORT_PATTERN_REWRITE_RULES[10]

ort_fusions.bias_gelu:bias_gelu_rules[0]: a bias of one element is broadcast by Add, and
  refused by BiasGelu
model (float[1,2] x, float[1] b) => (float[1,2] y) { m = Add(x, b) y = Gelu(m) }
opset 20
also ort_fusions.bias_gelu:bias_gelu_rules[2]

ort_fusions.gelu:_tanh_rule: FastGelu refuses a scalar, which all of the fused operators take
model (float x) => (float y) { three = Constant<value = float {3.0}>()
  a = Constant<value = float {0.044715}>() b = Constant<value = float {0.7978845608}>()
  one = Constant<value = float {1.0}>() half = Constant<value = float {0.5}>()
  t1 = Pow(x, three) t2 = Mul(a, t1) t3 = Add(x, t2) t4 = Mul(b, t3) t5 = Tanh(t4)
  t6 = Add(t5, one) t7 = Mul(half, t6) y = Mul(x, t7) }

ort_fusions.skip_normalization:_skip_layer_rule: doubles are fused as well, for which
  SkipLayerNormalization is not defined
model (double[1,1,2] x, double[1,1,2] z, double[2] g, double[2] b)
  => (double[1,1,2] y, double[1,1,2] s) { s = Add(x, z) y = LayerNormalization<axis = -1>(s,
  g, b) }

ort_fusions.shape_optimization:rules[0]: a -1 among the dimensions is passed on, where Shape
  yields the size that it means
model (float[4] x, int64[1] a, int64[1] b, int64[1] c, int64[1] d) => (int64[1] y) {
  k = Constant<value_ints = [3]>() l = Constant<value_ints = [4]>()
  s = Concat<axis = 0>(a, b, c, d) r = Reshape<allowzero = 1>(x, s)
  t = Transpose<perm = [0, 2, 1, 3]>(r) z = Shape(t) y = Slice(z, k, l) }
feed d=[-1]
"""
