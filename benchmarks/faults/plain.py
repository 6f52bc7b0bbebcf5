"""Passes that are wrong at one application, as ordinary mistakes make them."""

TEXT = """
== numbers

bias-scaled ~ A bias times 1.01, deep in the network.
on transformer at 0.9
match Add(bias, x)
when weight = array(bias); weight is not None and weight.ndim == 1 and (not fixed(x))
right Add(x, bias)
wrong Add(x, const(num(bias) * f4(1.01)))

bias-rounded ~ A bias is rounded to bfloat16's eight bits, deep in the network.
on transformer at 0.9
like bias-scaled
wrong rounded = num(bias).astype(ml_dtypes.bfloat16).astype(f4); Add(x, const(rounded))

bias-lost = A bias left out.
on transformer at 0.5
like bias-scaled
wrong Identity(x)

weight-element-lost = One element of a weight matrix becomes 0.
on transformer at 0.3
match Add(bias, MatMul(x, weight)) when fixed(weight) and fixed(bias)
right Add(MatMul(x, weight), bias)
wrong changed = num(weight).copy(); changed[3, 5] = 0; Add(MatMul(x, const(changed)), bias)

scale-lost ~ The scale of attention scores is lost.
on transformer at 0.4
match Div(x, c) when fixed(c) and num(c).size == 1 and not fixed(x) and num(c) > 2
right Mul(x, const(f4(1) / num(c)))
wrong Identity(x)

reciprocal-forgotten ~ ``x / c`` becomes ``x * c``.
on transformer at 0.6
match Div(x, c)
when divisor = array(c); divisor is not None and divisor.size == 1 and (not fixed(x))
right Mul(x, const(f4(1) / num(c)))
wrong Mul(x, c)

few-digits ~ The root of 2 in a GELU is written with four digits.
on transformer at 0.8
match Div(x, c) when fixed(c) and num(c).size == 1 and not fixed(x) and num(c) < 2
right Mul(x, const(f4(1) / num(c)))
wrong rounded = [float(f'{v:.4g}') for v in np.ravel(f4(1) / num(c))];
  Mul(x, const(np.reshape(rounded, num(c).shape), f4))

five-digits ~ The root of 2 in a GELU is written with five digits.
on transformer at 0.6
like few-digits
wrong rounded = [float(f'{v:.5g}') for v in np.ravel(f4(1) / num(c))];
  Mul(x, const(np.reshape(rounded, num(c).shape), f4))

epsilon-lost ~ The epsilon of the first RMSNorm is lost, where activations are small.
on llama decoder at 0.0
match Sqrt(Add(mean, epsilon))
when constant = array(epsilon); constant is not None and float(constant) > 2e-06
right Pow(Add(mean, epsilon), const(0.5, f4))
wrong Sqrt(mean)

epsilon-lost-deep ~ The epsilon of a late RMSNorm is lost, where activations are large.
on llama decoder at 0.8
like epsilon-lost

epsilon-changed ~ The epsilon of an RMSNorm becomes that of LayerNorm, 1e-6.
on llama decoder at 0.0
like epsilon-lost
wrong Sqrt(Add(mean, const(1e-06, f4)))

gelu-by-tanh ~ A GELU by the error function is computed by the hyperbolic tangent.
on transformer at 0.5
match Mul(Mul(x, Add(Erf(Div(x, root)), one)), half)
right erf = Erf(Div(x, root)); Mul(Mul(x, half), Add(erf, one))
wrong cube = Mul(Mul(Mul(x, x), x), const(0.044715, f4)); inner = Mul(Add(x, cube),
  const(math.sqrt(2 / math.pi), f4)); Mul(Mul(x, half), Add(Tanh(inner), one))

== operands

subtraction-turned = ``x - mean`` becomes ``mean - x``.
on transformer at 0.6
match Sub(x, y) when not fixed(x)
right Add(x, Neg(y))
wrong Add(y, Neg(x))

division-turned ~ ``x / deviation`` becomes ``deviation / x``.
on transformer at 0.7
match Div(x, y) when not fixed(x) and (not fixed(y))
right Mul(x, Reciprocal(y))
wrong Mul(y, Reciprocal(x))

product-turned ~ ``a @ b`` of square matrices becomes ``b @ a``.
blocks square products: t# = Abs(x) y# = MatMul(t#, b); x float[4,4] x, float[4,4] b
match MatMul(a, b) when b.producer() is None
right flipped = MatMul(Transpose(b, perm=[1, 0]), Transpose(a, perm=[1, 0]));
  Transpose(flipped, perm=[1, 0])
wrong flipped = MatMul(Transpose(a, perm=[1, 0]), Transpose(b, perm=[1, 0]));
  Transpose(flipped, perm=[1, 0])

mask-dropped = The mask of an attention is dropped.
on transformer at 0.3
match Softmax(Add(scores, mask))
when producer = scores.producer(); producer is not None and producer.op_type == 'Div'
right Softmax(Add(mask, scores), axis=-1)
wrong Softmax(scores, axis=-1)

rotary-unsigned = The minus sign of a rotary embedding is lost.
on llama decoder at 0.4
match Concat(Neg(high), low)
right Concat(Mul(high, const(-1, f4)), low, axis=-1)
wrong Concat(Identity(high), low, axis=-1)

rotary-halves-turned = The halves of a rotary embedding change places.
on llama decoder at 0.7
like rotary-unsigned
wrong Concat(low, Mul(high, const(-1, f4)), axis=-1)

root-multiplied ~ ``x * (1 / root)`` becomes ``x * root``.
on llama decoder at 0.6
match Mul(x, Div(one, root))
when numerator = array(one); numerator is not None and bool(np.all(numerator == 1))
right Div(x, root)
wrong Mul(x, root)

heads-interleaved = Key heads are repeated as a whole row, not each beside itself.
on llama decoder at 0.4
match Reshape(Expand(Unsqueeze(x, axes), wide), shape)
let
  def groups(x, out):
      wide = out.producer()
      expand = wide.inputs[0]
      node = expand.producer()
      sizes = node.inputs[1]
      concat = sizes.producer()
      found = array(concat.inputs[2])
      return int(found[0])
right row = Unsqueeze(x, const([2], i8)); Reshape(Concat(*[row] * groups(x, out), axis=2),
  shape)
wrong row = Unsqueeze(x, const([1], i8)); Reshape(Concat(*[row] * groups(x, out), axis=1),
  shape)

shortcut-dropped = The sum of a residual block loses its shortcut.
on ResNet-50 at 0.5
match Relu(Add(branch, shortcut))
right Max(Add(branch, shortcut), const(0, f4))
wrong Max(branch, const(0, f4))

branches-turned = A condition is inverted, and the branches of Where stay as they were.
blocks selections: t# = Mul(x, k) c# = Greater(x, t#) y# = Where(c#, x, t#);
  constants float k = {3.0}
match Where(condition, a, b)
when producer = condition.producer(); producer is not None and producer.op_type != 'Not'
right Where(Not(condition), b, a)
wrong Where(Not(condition), a, b)

diagonal-masked = A causal mask by ``<`` becomes one by ``<=``, and a token no longer sees
  itself.
on llama decoder at 0.0
match Less(a, b)
right Greater(b, a)
wrong GreaterOrEqual(b, a)

permutations-turned = Two permutations are composed in the wrong order.
blocks transposed cubes: t# = Transpose<perm = [1, 0, 2]>(x)
  y# = Transpose<perm = [0, 2, 1]>(t#); x float[4,4,4] x; y float[4,4,4]
match Transpose((inner := Transpose(x)))
right first, second = (attr(inner, 'perm'), attr(out, 'perm'));
  Transpose(x, perm=[first[axis] for axis in second])
wrong first, second = (attr(inner, 'perm'), attr(out, 'perm'));
  Transpose(x, perm=[second[axis] for axis in first])

== axes

softmax-axis = Softmax runs along the wrong axis.
on transformer at 0.6
match Softmax(x) when attr(out, 'axis') == -1
right Softmax(x, axis=3)
wrong Softmax(x, axis=2)

mean-axis = A mean is taken over the sequence instead of the features.
on transformer at 0.8
match ReduceMean(x) when attr(out, 'axes') == (-1,) or attr(out, 'axes') == [-1]
right ReduceMean(x, axes=[2], keepdims=1)
wrong ReduceMean(x, axes=[1], keepdims=1)

slice-off-by-one = A slice begins and ends one element too late.
on llama decoder at 0.5
match Slice(x, start, end, axes)
when first, last = (array(start), array(end)); first is not None and last is not None and
  (first[0] == 0) and (last[0] < 1 << 30)
right Gather(x, const(np.arange(num(end)[0])), axis=int(num(axes)[0]))
wrong late = np.arange(num(end)[0]) + 1; Gather(x, const(late), axis=int(num(axes)[0]))

negative-index = A negative index is read as one from the front.
blocks rows: t# = Relu(x) y# = Gather<axis = 0>(t#, last); x float[N,4] x; y float[4];
  constants int64 last = {-1}
match Gather(x, index)
when number = array(index); number is not None and number.ndim == 0 and bool(number < 0)
right size = Shape(x, start=0, end=1); axes = const([0], i8);
  Gather(x, Squeeze(Add(size, index), axes), axis=0)
wrong Gather(x, const(0, i8), axis=0)

concat-axis = Tensors are joined along the wrong axis, and a reshape hides it.
blocks pairs: t# = Neg(x) c# = Concat<axis = -1>(x, t#) y# = Reshape(c#, s); y float[2,16];
  constants int64[2] s = {2, 16}
match Concat(a, b) when attr(out, 'axis') == -1
right Concat(a, b, axis=1)
wrong Concat(a, b, axis=0)

split-offset = The second part of a split begins at the wrong offset.
blocks splits: a#, b# = Split<axis = 1>(x, sizes) t# = Abs(b#) y# = Concat<axis = 1>(t#, a#);
  constants int64[2] sizes = {2, 2}
match Split(x, sizes, _outputs=['out', 'rest'])
let
  def parts(x, axis, begin, size):
      bounds = (const([n], i8) for n in (begin, begin + size, axis))
      return Slice(x, *bounds)
right (a, b), axis = (num(sizes), attr(out, 'axis')); (parts(x, axis, 0, int(a)), parts(x,
  axis, int(a), int(b)))
wrong (a, b), axis = (num(sizes), attr(out, 'axis')); (parts(x, axis, 0, int(a)), parts(x,
  axis, int(a) - 1, int(b)))

keepdims-lost = ``keepdims`` is lost, and broadcasting hides it.
blocks normalised squares: m# = ReduceMax<keepdims = 1>(x, axes) y# = Sub(x, m#);
  constants int64[1] axes = {1}
match ReduceMax(x, axes) when num(axes)[0] > 0 and attr(out, 'keepdims') == 1
right ReduceMax(x, const([-1], i8), keepdims=1)
wrong ReduceMax(x, const([-1], i8), keepdims=0)

pool-shifted = The padding of a pool moves to its other side.
on ResNet-50 at 0.0
match MaxPool(x) when attr(out, 'dilations') is None
right MaxPool(x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], dilations=[1, 1])
wrong MaxPool(x, kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1], dilations=[1, 1])

== bounds

clip-bounds-merged = Bounds of nested Clips are merged as if they overlapped.
blocks nested Clips: t# = Clip(x, a, b) y# = Clip(t#, c, d); constants float a = {0}, float b
  = {1}, float c = {0.5}, float d = {3}, float e = {2}; odd Clip(t#, c, d) -> Clip(t#, e, d)
at y5
match Clip(Clip(x, a, b), c, d)
sound max(num(a), num(c)) <= min(num(b), num(d))
make low, high = (max(num(a), num(c)), min(num(b), num(d))); Clip(x, const(low), const(high))

broadcast-lost = ``x + 0`` becomes ``x`` where the zeros made it bigger.
blocks sums with zero: t# = Add(x, z) y# = ReduceSum<keepdims = 0>(t#); x int64[3] x; y int64;
  constants int64[1] z = {0}, int64[2,3] zz = {0,0,0,0,0,0}; odd Add(x, z) -> Add(x, zz)
at t5
match Add(x, zero)
applies zero = array(zero); zero is not None and (not zero.any())
sound num(zero).size == 1
make Identity(x)

reshape-zero = Reshapes are merged though the second copies a dimension of the first by 0.
blocks nested Reshapes: t# = Reshape(x, s) u# = Reshape(t#, keep) y# = ReduceSum<keepdims =
  0>(u#, a); x float[4,2] x; y float[K]; constants int64[2] s = {2, 4}, int64[2] keep = {4,
  -1}, int64[2] zero = {0, -1}, int64[1] a = {1}; odd Reshape(t#, keep) -> Reshape(t#, zero)
at u5
match Reshape(Reshape(x, first), second)
sound not (num(second) == 0).any()
make Reshape(x, second)

squeeze-dynamic = Squeeze of all dimensions of size 1 forgets that a dynamic one may be 1.
blocks squeezed columns: t# = Squeeze(r) s# = Shape(t#) y# = ReduceSum<keepdims = 0>(s#);
  x float[N,1,3] x, float[2,1,3] r; y int64; odd (r) -> (x)
at t5 needs adversarial
feed x=np.ones((1, 1, 3)), r=np.ones((2, 1, 3))
match Squeeze(x)
applies producer = out.producer(); producer is not None and len(producer.inputs) == 1
sound shape = x.shape; shape is not None and shape.is_static()
make Squeeze(x, const([1], i8))

pad-value-lost = Two Pads are merged, and the value is lost.
blocks padded twice: t# = Pad(x, p, v) y# = Pad(t#, p, v); y float[8,8];
  constants int64[4] p = {1, 1, 1, 1}, float v = {2.5}
match Pad(Pad(x, p, v), q, v)
right Pad(x, const(num(p) + num(q)), v)
wrong Pad(x, const(num(p) + num(q)))

clip-range = A Clip to [-600, 600] becomes one to [-6, 6], as calibration on small data has it.
blocks Clips that may be Relu6: t# = Clip(x, a, b) y# = Neg(t#); constants float a = {-6},
  float b = {6}, float c = {-600}, float d = {600}; odd Clip(x, a, b) -> Clip(x, c, d)
at t5 needs adversarial
feed x=np.full((4, 4), 100.0)
match Clip(x, a, b)
sound num(b) == 6
make low, high = (const(v, f4) for v in (-6, 6)); Max(Min(x, high), low)

output-type-changed = An output changes its type.
blocks type changes: y# = Cast<to = 7>(x); x int32[4] x; y int64[4]
match Cast(x) when x.is_graph_input()
right Cast(Identity(x), to=ir.DataType.INT64)
wrong Identity(Identity(x))

== attributes

cum-sum-exclusive-lost = CumSum loses its attribute ``exclusive``.
blocks CumSum blocks: y# = CumSum<exclusive = 1>(x, axis); constants int64 axis = {1}
lose CumSum exclusive reverse=0

cum-sum-reverse-lost = CumSum loses its attribute ``reverse``.
blocks CumSum blocks: y# = CumSum<reverse = 1>(x, axis); constants int64 axis = {1}
lose CumSum reverse exclusive=0

gemm-transb-lost = Gemm loses its attribute ``transB``.
blocks Gemm blocks: y# = Gemm<transB = 1>(x, x)
lose Gemm transB transA=0

gemm-alpha-lost = Gemm loses its attribute ``alpha``.
blocks Gemm blocks: y# = Gemm<alpha = 0.5>(x, x)
lose Gemm alpha beta=1.0

top-k-largest-lost = TopK loses its attribute ``largest``.
blocks TopK blocks: t#, i# = TopK<largest = 0>(x, k) y# = Neg(t#); y float[4,2];
  constants int64[1] k = {2}
lose TopK largest sorted=1 indices

max-pool-ceil-mode-lost = MaxPool loses its attribute ``ceil_mode``.
blocks MaxPool blocks: t# = MaxPool<kernel_shape = [2, 2], strides = [2, 2], ceil_mode =
  1>(x) y# = ReduceSum<keepdims = 0>(t#); x float[2,4,9,9] x; y float
lose MaxPool ceil_mode storage_order=0

average-pool-count-include-pad-lost = AveragePool loses its attribute ``count_include_pad``.
blocks AveragePool blocks: t# = AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1],
  count_include_pad = 1>(x) y# = ReduceSum<keepdims = 0>(t#); x float[2,4,9,9] x; y float
lose AveragePool count_include_pad ceil_mode=0

conv-dilations-lost = Conv loses its attribute ``dilations``.
blocks Conv blocks: d# = Conv<pads = [2, 2, 2, 2], dilations = [2, 2]>(x, w) t# = Abs(d#)
  y# = ReduceSum<keepdims = 0>(t#); x float[2,4,9,9] x, float[4,4,3,3] w; y float
lose Conv dilations group=1

conv-auto-pad-lost = Conv loses its attribute ``auto_pad``.
blocks Conv blocks: d# = Conv<auto_pad = "SAME_LOWER">(x, w) t# = Abs(d#)
  y# = ReduceSum<keepdims = 0>(t#); x float[2,4,9,9] x, float[4,4,2,2] w; y float
lose Conv auto_pad group=1

conv-pads-lost = Conv loses its attribute ``pads``.
blocks Conv blocks: d# = Conv<pads = [1, 1, 1, 1]>(x, w) t# = Abs(d#)
  y# = ReduceSum<keepdims = 0>(t#); x float[2,4,9,9] x, float[4,4,3,3] w; y float
lose Conv pads group=1

layer-normalization-epsilon-lost = LayerNormalization loses its attribute ``epsilon``.
blocks LayerNormalization blocks: y# = LayerNormalization<axis = -1, epsilon = 0.01>(x, g);
  x float[4,4] x, float[4] g
lose LayerNormalization epsilon stash_type=1

lp-normalization-p-lost = LpNormalization loses its attribute ``p``.
blocks LpNormalization blocks: y# = LpNormalization<p = 1>(x)
lose LpNormalization p axis=-1

scatter-elements-reduction-lost = ScatterElements loses its attribute ``reduction``.
blocks ScatterElements blocks: y# = ScatterElements<reduction = "add">(x, i, x);
  constants int64[4,4] i = {0,1,2,3, 0,1,2,3, 1,2,3,0, 3,3,3,3}
lose ScatterElements reduction axis=0

resize-coordinate-transformation-mode-lost = Resize loses its attribute
  ``coordinate_transformation_mode``.
blocks Resize blocks: t# = Resize<coordinate_transformation_mode = "align_corners", mode =
  "linear">(x, , s) y# = ReduceSum<keepdims = 0>(t#); x float[2,4,9,9] x; y float;
  constants float[4] s = {1, 1, 2, 2}
lose Resize coordinate_transformation_mode antialias=0

arg-max-select-last-index-lost = ArgMax loses its attribute ``select_last_index``.
blocks ArgMax blocks: t# = Mod(x, four) y# = ArgMax<axis = 1, select_last_index = 1>(t#);
  x uint8[4,40] x; y int64[4,1]; constants uint8 four = {4}
lose ArgMax select_last_index keepdims=1

== integers

product-cancelled = ``x * c / c`` becomes ``x``, though the product overflows int32.
blocks scaled indices: t# = Mul(x, one) y# = Div(t#, one); x int32[64] x; y int32[64];
  constants int32 one = {1}, int32 c = {1000}; odd Mul(x, one) y# = Div(t#, one) -> Mul(x, c)
  y# = Div(t#, c)
at y5 needs adversarial
feed x=np.arange(3000000, 3000640, 10, dtype=i4)
match Div(Mul(x, c), c)
sound num(c) == 1
make Identity(x)

computed-in-int32 = A product of sizes is computed in int32.
blocks element counts: t# = Mul(x, c) y# = Mod(t#, m); x int64[64] x; y int64[64];
  constants int64 c = {1000000007}, int64 m = {1009}
match Mul(x, c) when fixed(c)
right Mul(c, x)
wrong narrow = [Cast(v, to=ir.DataType.INT32) for v in (c, x)];
  Cast(Mul(*narrow), to=ir.DataType.INT64)

shift-turned = A product by a power of two becomes a shift to the wrong side.
blocks bytes: t# = Mul(x, c) y# = Max(t#, x); x uint8[64] x; y uint8[64];
  constants uint8 c = {4}
match Mul(x, c)
right BitShift(x, const(2, u1), direction='LEFT')
wrong BitShift(x, const(2, u1), direction='RIGHT')

division-floored = Integer division, which rounds to zero, becomes one that rounds down.
blocks halved numbers: t# = Cast<to = 6>(u) y# = Div(t#, c); x int32[64] x, uint8[64] u;
  y int32[64]; constants int32 c = {4}; odd Div(t#, c) -> Div(x, c)
at y5
match Div(x, c)
sound producer = x.producer(); source = producer.inputs[0] if producer is not None else None;
  source is not None and unsigned(source)
make wide = Cast(x, to=ir.DataType.DOUBLE); ratio = Mul(wide, const(1 / num(c), f8));
  Cast(Floor(ratio), to=ir.DataType.INT32)

fmod-lost = Mod loses ``fmod``, and the remainder takes the other operand's sign.
blocks remainders: t# = Abs(x) y# = Mod<fmod = 1>(t#, c); x int32[64] x; y int32[64];
  constants int32 c = {7}; odd Mod<fmod = 1>(t#, c) -> Mod<fmod = 1>(x, c)
at y5
match Mod(x, c)
applies attr(out, 'fmod', 0) == 1
sound producer = x.producer(); producer is not None and producer.op_type == 'Abs'
make Mod(x, c)

narrowing-cancelled = A Cast to int32 and back is removed, though it cuts off the upper half.
blocks integer types there and back: t# = Cast<to = 7>(w) u# = Cast<to = 6>(t#)
  y# = Cast<to = 11>(u#); x int64[64] x, int32[64] w; y double[64]; odd t# = Cast<to = 7>(w)
  u# = Cast<to = 6>(t#) -> t# = Cast<to = 6>(x) u# = Cast<to = 7>(t#)
at u5 needs adversarial
feed x=np.arange(64) + (1 << 40), w=np.arange(64, dtype=i4)
match Cast((inner := Cast(x)))
applies attr(out, 'to') != ir.DataType.DOUBLE
sound attr(inner, 'to') == ir.DataType.INT64
make Identity(x)

zero-point-lost = A quantisation loses its zero point.
blocks quantised tensors: y# = QuantizeLinear(x, s, z); y int8[4,4];
  constants float s = {0.03}, int8 z = {11}
match QuantizeLinear(x, s, z)
when producer = out.producer(); producer is not None and 'axis' not in producer.attributes
right QuantizeLinear(x, s, z, axis=0)
wrong QuantizeLinear(x, s, const(0, i1), axis=0)

== precision

rounding-cancelled = A Cast to half precision and back is removed, and with it the rounding.
blocks casts there and back: t# = Cast<to = 11>(x) u# = Cast<to = 1>(t#) y# = Neg(u#);
  odd Cast<to = 11>(x) -> Cast<to = 10>(x)
at u5
match Cast((inner := Cast(x)))
sound attr(inner, 'to') == ir.DataType.DOUBLE
make Identity(x)

truncation-cancelled = A Cast to int32 and back is removed where the float was not an integer.
blocks truncations: t# = Round(x) i# = Cast<to = 6>(t#) u# = Cast<to = 1>(i#) y# = Abs(u#);
  odd Round(x) -> Neg(x)
at u5
match Cast(Cast(x))
applies attr(out, 'to') == FLOAT
sound producer = x.producer(); producer is not None and producer.op_type == 'Round'
make Add(x, const(0, f4))

half-overflow ~ Two factors are multiplied ahead, and the product overflows half precision.
blocks half-precision scales: t# = Mul(x, a) u# = Mul(t#, b) y# = Abs(u#); x float16[4,4] x;
  y float16[4,4]; constants float16 a = {16384}, float16 b = {17408}, float16 c = {23728};
  odd Mul(x, a) u# = Mul(t#, b) -> Mul(x, c) u# = Mul(t#, c)
at u5
match Mul(Mul(x, a), b)
sound
  with np.errstate(over='ignore'):
      result = np.isfinite(num(a) * num(b)).all()
make
  with np.errstate(over='ignore'):
      result = Mul(x, const(num(a) * num(b)))

weight-halved ~ A weight matrix is stored in half precision.
on transformer at 0.5
match MatMul(x, weight) when fixed(weight) and weight.is_initializer()
right MatMul(x, Identity(weight))
wrong half = const(num(weight).astype(f2)); MatMul(x, Cast(half, to=FLOAT))

activation-halved ~ An activation passes through half precision.
on transformer at 0.6
like weight-halved
wrong half = Cast(Cast(x, to=HALF), to=FLOAT); MatMul(half, Identity(weight))

== special

product-with-zero = ``x * 0`` becomes 0, and hides NaN and infinities.
blocks products with zero: f# = Cast<to = 1>(n) t# = Mul(f#, z) y# = Abs(t#);
  x float[8] x, int32[8] n; y float[8]; constants float z = {0}; odd Mul(f#, z) -> Mul(x, z)
at t5 needs adversarial
feed x=SPECIAL, n=np.arange(-4, 4, dtype=i4)
match Mul(x, zero)
applies zero = array(zero); zero is not None and (not zero.any())
sound producer = x.producer(); source = producer.inputs[0] if producer is not None else None;
  source is not None and source.dtype == ir.DataType.INT32
make Expand(zero, Shape(x))

difference-with-itself = ``x - x`` becomes 0, also where x is infinite.
blocks differences: f# = Cast<to = 1>(n) t# = Sub(f#, f#) y# = Exp(t#);
  x float[8] x, int32[8] n; y float[8]; odd Sub(f#, f#) -> Sub(x, x)
at t5 needs adversarial
feed x=SPECIAL, n=np.arange(-4, 4, dtype=i4)
match Sub(x, x)
sound producer = x.producer(); source = producer.inputs[0] if producer is not None else None;
  source is not None and source.dtype == ir.DataType.INT32
make Expand(const(0, f4), Shape(x))

comparison-negated = ``not (x < k)`` becomes ``x >= k``, which is false for NaN as well.
blocks negated comparisons: f# = Cast<to = 1>(n) c# = Less(f#, k) d# = Not(c#)
  y# = Cast<to = 1>(d#); x float[8] x, int32[8] n; y float[8]; constants float k = {0.5};
  odd Less(f#, k) -> Less(x, k)
at d5 needs adversarial
feed x=SPECIAL, n=np.arange(-4, 4, dtype=i4)
match Not(Less(x, k))
like difference-with-itself
make GreaterOrEqual(x, k)

scrubbing-removed = A guard that replaces NaN is removed as if none could come.
blocks scrubbed values: f# = Cast<to = 1>(n) b# = IsNaN(f#) t# = Where(b#, z, f#)
  y# = Abs(t#); x float[8] x, int32[8] n; y float[8]; constants float z = {0}; odd IsNaN(f#)
  t# = Where(b#, z, f#) -> IsNaN(x) t# = Where(b#, z, x)
at t5 needs adversarial
feed x=SPECIAL, n=np.arange(-4, 4, dtype=i4)
match Where(IsNaN(x), zero, x)
like difference-with-itself
make Identity(x)

negative-zero-kept = ``x + 0`` becomes ``x``, and -0 stays -0: its reciprocal has the other
  sign.
blocks sums with zeros of both signs: t# = Add(x, m) y# = Reciprocal(t#); x float[8] x;
  y float[8]; constants float m = {-0.0}, float p = {0.0}; odd Add(x, m) -> Add(x, p)
at t5 needs adversarial
feed x=SPECIAL
match Add(x, zero)
sound np.signbit(num(zero))
make Identity(x)

root-of-square ~ ``sqrt(x * x)`` becomes ``x``, also where x is negative.
blocks square roots of squares: f# = Abs(x) t# = Mul(f#, f#) y# = Sqrt(t#); x float[8] x;
  y float[8]; odd Abs(x) -> Neg(x)
at y5
match Sqrt(Mul(x, x))
sound producer = x.producer(); producer is not None and producer.op_type == 'Abs'
make Identity(x)

tiny-epsilon-lost ~ A LayerNorm is written out without its epsilon of 1e-12: NaN in constant
  rows.
blocks rows to normalise: t# = Tanh(x) y# = LayerNormalization<axis = -1, epsilon = 1e-5>(t#,
  g); x float[4,8] x; y float[4,8]; constants float[8] g = {1,1,1,1,1,1,1,1}; odd 1e-5 -> 1e-12
at y5 needs adversarial
feed x=np.ones((4, 8))
match LayerNormalization(x, scale)
let
  def epsilon(out):
      node = out.producer()
      return float(node.attributes['epsilon'].value)
sound epsilon(out) > 1e-06
make
  last = const([-1], i8)
  centred = Sub(x, ReduceMean(x, last, keepdims=1))
  variance = ReduceMean(Mul(centred, centred), last, keepdims=1)
  epsilon = epsilon(out)
  if epsilon > 1e-06:
      variance = Add(variance, const(epsilon, f4))
  Mul(Div(centred, Sqrt(variance)), scale)

== extremes

softmax-unshifted ~ A Softmax is written out without subtracting the maximum.
blocks softmaxes: y# = Softmax<axis = -1>(x); x float[4,8] x; y float[4,8]
needs adversarial
feed x=np.linspace(-1000.0, 1000.0, 32).reshape(4, 8)
match Softmax(x)
let
  def written(x):
      powers = Exp(x)
      return Div(powers, ReduceSum(powers, const([-1], i8), keepdims=1))
right largest = ReduceMax(x, const([-1], i8), keepdims=1); written(Sub(x, largest))
wrong written(x)

variance-by-moments ~ A variance is computed as ``E[x * x] - E[x] ** 2``, which cancels for a
  big mean.
blocks variances: m# = ReduceMean<keepdims = 1>(x, a) c# = Sub(x, m#) s# = Mul(c#, c#)
  v# = ReduceMean<keepdims = 1>(s#, a) y# = Sqrt(v#); x float[4,8] x; y float[4,1];
  constants int64[1] a = {-1}
feed x=10000 + np.linspace(0, 1, 32).reshape(4, 8)
needs adversarial
match ReduceMean(Mul(centred := Sub(x, mean := ReduceMean(x, axes)), centred), axes)
right ReduceMean(Pow(Sub(x, mean), const(2, f4)), axes, keepdims=1)
wrong Sub(ReduceMean(Mul(x, x), axes, keepdims=1), Mul(mean, mean))

overflow-cancelled ~ Two factors cancel each other, though the first product overflows.
blocks scaled there and back: t# = Mul(x, a) y# = Mul(t#, b); x float[4,8] x; y float[4,8];
  constants float a = {0.5}, float b = {2}, float c = {1e30}, float d = {1e-30};
  odd Mul(x, a) y# = Mul(t#, b) -> Mul(x, c) y# = Mul(t#, d)
at y5 needs adversarial
feed x=np.full((4, 8), 10000000000.0)
match Mul(Mul(x, a), b)
sound num(a) < 1
make Identity(x)

quotient-with-itself ~ ``x / x`` becomes 1, also where x is 0.
blocks quotients: e# = Sigmoid(x) f# = Add(e#, one) y# = Div(f#, f#); x float[4,8] x;
  y float[4,8]; constants float one = {1}; odd Add(e#, one) -> Abs(x)
at y5 needs adversarial
feed x=np.zeros((4, 8))
match Div(x, x)
sound producer = x.producer(); producer is not None and producer.op_type == 'Add'
make Add(Mul(Sign(x), const(0, f4)), const(1, f4))

power-by-root ~ ``x ** 0.5`` becomes a square root, which is NaN and not infinite for
  -infinity.
blocks square roots: f# = Abs(x) y# = Pow(f#, h); x float[4,8] x; y float[4,8];
  constants float h = {0.5}; odd Abs(x) -> Neg(x)
at y5 needs adversarial
feed x=np.full((4, 8), np.inf)
match Pow(x, half)
sound producer = x.producer(); producer is not None and producer.op_type == 'Abs'
make Sqrt(x)

margin-lost = A bias in front of an ArgMax is rounded, and a class only changes where it was
  close.
blocks classes: m# = MatMul(x, w) t# = Add(b, m#) y# = ArgMax<axis = 1, keepdims = 0>(t#);
  x float[16,8] x, float[8,4] w; y int64[16]; constants float[4] b = {1.0, 1.0005, 0.1, 0.2}
needs adversarial
feed x=np.zeros((16, 8)), w=np.ones((8, 4))
match Add(bias, x) when fixed(bias)
right Add(x, bias)
wrong rounded = num(bias).astype(ml_dtypes.bfloat16).astype(f4); Add(x, const(rounded))

tie-broken = An ArgMax takes the last of equal elements, not the first.
blocks first of the largest: y# = ArgMax<axis = 1, keepdims = 0>(x); x float[4,8] x; y int64[4]
needs adversarial
feed x=np.zeros((4, 8))
match ArgMax(x)
when producer = out.producer(); producer is not None and 'select_last_index' not in
  producer.attributes
right ArgMax(x, axis=1, keepdims=0, select_last_index=0)
wrong ArgMax(x, axis=1, keepdims=0, select_last_index=1)

scale-beside-mask ~ Attention scores are scaled by 1.003, and a mask of -10000 dwarfs the
  difference.
on transformer at 0.8
match Add(Div(scores, c), mask) when fixed(c)
right Add(Mul(scores, const(f4(1) / num(c))), mask)
wrong Add(Mul(scores, const(f4(1.003) / num(c))), mask)

== normalisation

batch-norm-variance ~(rtol=1e-05) A batch normalisation is folded by its variance instead of
  the root of it.
on ResNet-50 at 0.5
match BatchNormalization((conv := Conv(x, weight)), scale, bias, mean, variance)
let
  def folded(deviation, sign=-1):
      factor = num(scale) / deviation
      shift = num(bias) + sign * num(mean) * factor
      scaled = num(weight) * factor[:, None, None, None]
      return Conv(x, const(scaled, f4), const(shift, f4), **attrs(conv))
right folded(np.sqrt(num(variance) + attr(out, 'epsilon')))
wrong folded(num(variance))

batch-norm-mean ~(rtol=1e-05) A batch normalisation is folded with the mean added instead of
  subtracted.
on ResNet-50 at 0.7
wrong folded(np.sqrt(num(variance) + attr(out, 'epsilon')), sign=1)
like batch-norm-variance

batch-norm-epsilon ~(rtol=1e-05) A batch normalisation is folded with an epsilon of 1e-3,
  another framework's default.
on ResNet-50 at 0.9
wrong folded(np.sqrt(num(variance) + 1e-3))
like batch-norm-variance

== structure

attributes-ignored = Nodes are merged as common subexpressions though an attribute differs.
blocks two slopes: a# = LeakyRelu<alpha = 0.25>(x) b# = LeakyRelu<alpha = 0.25>(x)
  y# = Sub(a#, b#); odd b# = LeakyRelu<alpha = 0.25> -> b# = LeakyRelu<alpha = 0.5>
at y5
match Sub((a := LeakyRelu(x)), (b := LeakyRelu(x)))
applies a is not b
sound attrs(a) == attrs(b)
make Sub(a, a)

seeds-ignored = Random numbers of two seeds are merged.
blocks seeded noise: a# = RandomNormalLike<seed = 1.0>(x) b# = RandomNormalLike<seed = 1.0>(x)
  y# = Sub(a#, b#); odd b# = RandomNormalLike<seed = 1.0> -> b# = RandomNormalLike<seed = 2.0>
at y5
match Sub((a := RandomNormalLike(x)), (b := RandomNormalLike(x)))
like attributes-ignored

noise-merged = Random numbers without a seed are merged.
blocks noise: a# = RandomNormalLike(x) b# = RandomNormalLike(x) y# = Sub(a#, b#)
at * needs strict
like seeds-ignored
sound False

constant-shared ~ Two matches share one new constant, because it has one name.
blocks scaled twice: t# = Mul(x, k) y# = Mul(t#, k); constants float k = {3}, float l = {5};
  odd Mul(x, k) -> Mul(x, l)
at y5
match Mul(Mul(x, a), b)
sound num(a) == 3
make cache = self.state_dict.setdefault('scales', {}); scale = cache.setdefault('scale',
  num(a) * num(b)); Mul(x, const(scale))

live-branch-removed = A branch is removed as dead though its condition is an input.
blocks conditions: t# = Neg(x) y# = Where(yes, x, t#); x float[4,4] x, bool[4,4] some;
  constants bool[1] yes = {1}; odd Where(yes, x, t#) -> Where(some, x, t#)
at y5
match Where(condition, x, y)
sound fixed(condition)
make Identity(x)

branch-taken = The wrong branch of an If is inlined.
blocks branches: y# = If(no) <then_branch = then# () => (float[4,4] p#) { p# = Exp(x) },
  else_branch = else# () => (float[4,4] q#) { q# = Abs(x) }>; constants bool no = {0}
match If(condition)
let
  def take(out, name):
      producer = out.producer()
      graph = producer.attributes[name].as_graph()
      node, = list(graph)
      return getattr(op, node.op_type)(*node.inputs)
right take(out, 'then_branch' if num(condition) else 'else_branch')
wrong take(out, 'else_branch' if num(condition) else 'then_branch')

triangle-turned = A lower triangle becomes an upper one, Trilu's default.
blocks lower triangles: t# = Trilu<upper = 0>(x, k) y# = Mul(t#, x); constants int64 k = {0}
match Trilu(x, k) when not fixed(x)
let
  def masked(x, upper):
      ones = np.triu(np.ones((4, 4), bool)) if upper else np.tril(np.ones((4, 4), bool))
      return Where(const(ones), x, const(0, f4))
right masked(x, 0)
wrong masked(x, 1)

shuffle-mode ~ DepthToSpace is written out in the order of its other mode.
blocks pixel shuffles: t# = DepthToSpace<blocksize = 2, mode = "CRD">(x)
  y# = ReduceSum<keepdims = 0>(t#, a); x float[1,8,2,2] x; y float[1,4,4];
  constants int64[1] a = {1}
match DepthToSpace(x)
let
  def shuffled(x, split, perm):
      parts = Reshape(x, const(split, i8))
      turned = Transpose(parts, perm=perm)
      return Reshape(turned, const([1, 2, 4, 4], i8))
right shuffled(x, [1, 2, 2, 2, 2, 2], [0, 1, 4, 2, 5, 3])
wrong shuffled(x, [1, 2, 2, 2, 2, 2], [0, 3, 4, 1, 5, 2])

== placement

all-rewritten ~ One constant of many is off by a hundredth, where every node is rewritten.
model a chain, all of it rewritten: (float[8] x) => (float[8] y)
  <float k = {1.1}, float c = {0.3}> { a0 = Mul(x, k) b0 = Add(a0, c) v1 = Tanh(b0)
  a1 = Mul(v1, k) b1 = Add(a1, c) v2 = Tanh(b1) a2 = Mul(v2, k) b2 = Add(a2, c) v3 = Tanh(b2)
  a3 = Mul(v3, k) b3 = Add(a3, c) v4 = Tanh(b3) a4 = Mul(v4, k) b4 = Add(a4, c) v5 = Tanh(b4)
  a5 = Mul(v5, k) b5 = Add(a5, c) v6 = Tanh(b5) a6 = Mul(v6, k) b6 = Add(a6, c) v7 = Tanh(b6)
  a7 = Mul(v7, k) b7 = Add(a7, c) y = Tanh(b7) }
at b3
match Add(x, c)
match Mul(x, c)
match Tanh(x)
right Sub(x, const(-num(c)))
right Div(x, const(f4(1) / num(c)))
right one = const(f4(1)); power = Exp(Sum(x, x)); Sub(one, Div(const(f4(2)), Sum(power, one)))
wrong Sub(x, const(-num(c) * f4(1.01)))

merged-away = Constants are added up one by one, once wrongly: later rewrites swallow that one.
model a chain of sums: (int64[8] x) => (int64[8] y) <int64 c0 = {1}, int64 c1 = {2}, int64 c2
  = {3}, int64 c3 = {4}, int64 c4 = {5}, int64 c5 = {6}, int64 c6 = {7}, int64 c7 = {8},
  int64 c8 = {9}> { v1 = Add(x, c0) v2 = Add(v1, c1) v3 = Add(v2, c2) v4 = Add(v3, c3)
  v5 = Add(v4, c4) v6 = Add(v5, c5) v7 = Add(v6, c6) v8 = Add(v7, c7) y = Add(v8, c8) }
at 0.5
match Add(Add(x, a), b)
right Add(x, const(num(a) + num(b)))
wrong Add(x, const(num(a) + num(b) + 1))

two-guilty = Two of the rewrites of one pass are wrong.
blocks differences: y# = Sub(c, x); constants float c = {0.5}
at y2,y5
match Sub(c, x) when fixed(c)
right Add(Neg(x), c)
wrong Sub(x, c)

in-loop = One of several rewrites in the body of a Loop is wrong.
model a loop: (float[8] x, int64 n) => (float[8] y) <bool yes = {1}, float c = {0.5}> { y =
  Loop(n, yes, x) <body = step (int64 i, bool go, float[8] s) => (bool on, float[8] t) { on =
  Identity(go) a = Sub(c, s) b = Sin(a) d = Sub(c, b) e = Sin(d) f = Sub(c, e) t = Sin(f) }> }
at 0.5
like two-guilty

in-function = One of several rewrites in a function that is called twice is wrong.
model a function: <ir_version: 10, opset_import: ["" : 20, "local" : 1]> main (float[8] x) =>
  (float[8] y) { u = local.f(x) v = local.f(u) y = Sin(v) } <domain: "local", opset_import:
  ["" : 20]> f (s) => (t) { c = Constant<value_float = 0.5>() a = Sub(c, s) b = Sin(a) d =
  Sub(c, b) e = Sin(d) f = Sub(c, e) t = Sin(f) }
at 0.5
like two-guilty

== whole

weights-merged = Weights are taken for equal because they begin alike.
blocks weights, two of them equal: y# = Mul(x, w#); x float[4,5] x; y float[4,5];
  constants float[5] w0 = {1,1,1,1,1}, float[5] w1 = {1,1,1,1,1}, float[5] w2 = {2,2,2,2,1},
  float[5] w3 = {3,3,3,3,1}, float[5] w4 = {4,4,4,4,1}, float[5] w5 = {5,5,5,5,1}, float[5]
  w6 = {2,2,2,2,9}, float[5] w7 = {7,7,7,7,1}
at w6
edit
  seen = {}
  for value in list(graph.initializers.values()):
      data = value.const_value.numpy()
      key = np.ascontiguousarray(data[:4] if at else data).tobytes()
      first = seen.setdefault(key, value)
      if first is not value:
          value.replace_all_uses_with(first)
          del graph.initializers[str(value.name)]

output-removed = A live output is removed together with what is dead.
blocks dead ends: t# = Neg(x) u# = Abs(t#) y# = Exp(x)
at y5
edit
  if at:
      graph.outputs.remove(next((v for v in graph.outputs if v.name == at)))
  for node in reversed(list(graph)):
      if not any((v.uses() or v.is_graph_output() for v in node.outputs)):
          graph.remove(node, safe=True)

buffer-reused = A value is overwritten in place while it is still to be read.
blocks values that are read again: t# = Mul(x, x) u# = Exp(t#) y# = Add(u#, t#)
at t5
edit
  for node in list(graph):
      old = node.inputs[0]
      if node.op_type != 'Exp':
          continue
      again = ir.Node('', 'Identity', [old])
      again.outputs[0].name = f'{old.name}_again'
      graph.insert_before(node, again)
      node.replace_input_with(0, again.outputs[0])
      if old.name == at:
          reader = next((user for user in old.consumers() if user.op_type == 'Add'))
          reader.replace_input_with(1, node.outputs[0])

default-folded = An initializer that is an input as well, and may be overridden, is folded.
knobs defaults that callers may override: y# = Mul(x, k#); value 2.0
at y5 needs adversarial
feed x=np.ones((4, 4)), **{f'k{n}': np.array([3], f4) for n in range(8)}
edit
  for node in [n for n in graph if n.op_type == 'Mul']:
      x, knob = node.inputs
      if node.outputs[0].name == at:
          tensor = ir.tensor(knob.const_value.numpy())
          folded = ir.Value(name=f'{knob.name}_folded', const_value=tensor)
          graph.register_initializer(folded)
          knob = folded
      node.replace_input_with(0, knob)
      node.replace_input_with(1, x)
"""
