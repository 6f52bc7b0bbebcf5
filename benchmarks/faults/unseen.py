"""Mistakes of passes of other compilers, written without a look at the gate."""

TEXT = """
== unseen_values

logs-merged ~ A sum of logarithms becomes that of a product, which is 0 for two small numbers.
blocks likelihoods: p# = Exp(x) q# = Exp(z) a# = Log(p#) b# = Log(q#) y# = Add(a#, b#);
  x float[4,4] x, float[4,4] z
at y5
feed x=np.full((4, 4), -60.0), z=np.full((4, 4), -50.0)
match Add(Log(a), Log(b))
right Sub(Log(a), Neg(Log(b)))
wrong Log(Mul(a, b))

bounds-crossed = A maximum of a minimum becomes a Clip, whose upper bound wins if it is lower.
blocks bounded numbers: t# = Min(x, high) y# = Max(t#, low); constants float high = {0.5},
  float low = {-0.5}, float lower = {-1}; odd Min(x, high) -> Min(x, lower)
at y5
feed x=np.linspace(-3, 3, 16).reshape(4, 4)
match Max(Min(x, high), low)
sound num(low) <= num(high)
make Clip(x, low, high)

remainder-by-mask = A remainder becomes a mask of bits, also where the divisor is not a power
  of two.
blocks buckets of numbers: m# = Mod(x, eight) y# = Add(m#, eight); x int64[16] x;
  y int64[16]; constants int64 eight = {8}, int64 six = {6}; odd Mod(x, eight) -> Mod(x, six)
at m5
feed x=np.arange(-8, 8)
match Mod(x, k)
sound int(num(k)).bit_count() == 1
make BitwiseAnd(x, const(num(k) - 1))

zero-point-in-bytes = A zero point is subtracted in uint8, where what is below it wraps around.
blocks bytes as numbers: d# = DequantizeLinear(x, s, z) y# = Abs(d#); x uint8[4,4] x;
  constants float s = {0.125}, uint8 z = {128}
at d5
feed x=np.arange(0, 256, 16, dtype=u1).reshape(4, 4)
match DequantizeLinear(x, s, z)
right levels, zero = (Cast(value, to=ir.DataType.INT32) for value in (x, z));
  Mul(Cast(Sub(levels, zero), to=ir.DataType.FLOAT), s)
wrong Mul(Cast(Sub(x, z), to=ir.DataType.FLOAT), s)

first-quantiser-dropped = Of two pairs of quantiser and dequantiser the first is dropped,
  though it is coarser.
blocks quantised twice: q# = QuantizeLinear(x, s, z) d# = DequantizeLinear(q#, s, z)
  r# = QuantizeLinear(d#, s, z) y# = DequantizeLinear(r#, s, z);
  constants float s = {0.05}, float coarse = {0.12}, uint8 z = {128}; odd (x, s, z)
  d# = DequantizeLinear(q#, s, z) -> (x, coarse, z) d# = DequantizeLinear(q#, coarse, z)
at r5
feed x=np.linspace(-3, 3, 16).reshape(4, 4)
match QuantizeLinear(DequantizeLinear(QuantizeLinear(x, s, z), s, z), scale, zero)
sound num(s) == num(scale) and num(z) == num(zero)
make QuantizeLinear(x, scale, zero)

zero-points-swapped = The two zero points of an integer product are exchanged when it is
  written out.
blocks products of bytes: p# = MatMulInteger(a, b, u, v) y# = Cast<to = 1>(p#);
  x uint8[4,4] a, uint8[4,4] b; constants uint8 u = {3}, uint8 v = {7}
at p5
feed a=np.arange(16, dtype=u1).reshape(4, 4), b=np.arange(100, 116, dtype=u1).reshape(4, 4)
match MatMulInteger(a, b, u, v)
let centred = lambda x, zero: Sub(*(Cast(value, to=ir.DataType.INT32) for value in (x, zero)))
right MatMul(centred(a, u), centred(b, v))
wrong MatMul(centred(a, v), centred(b, u))

truth-of-fraction = A Cast to int64 on the way to bool is dropped, where 0.5 became 0.
blocks whether there is something: i# = Cast<to = 7>(u) b# = Cast<to = 9>(i#) y# = Not(b#);
  x float[4,4] x, int32[4,4] u; y bool[4,4]; odd Cast<to = 7>(u) -> Cast<to = 7>(x)
at b5
feed x=np.linspace(-3, 3, 16).reshape(4, 4) / 4, u=np.zeros((4, 4), i4)
match Cast(Cast(x), to=ir.DataType.BOOL)
sound x.dtype == ir.DataType.INT32
make Cast(x, to=ir.DataType.BOOL)

cap-by-clip ~ A soft cap of scores becomes a Clip, which is the same for small scores only.
blocks capped scores: d# = Div(x, cap) t# = Tanh(d#) s# = Mul(t#, cap) y# = Softmax(s#);
  constants float cap = {64}
at s5
feed x=np.linspace(-3, 3, 16).reshape(4, 4) * 20
match Mul(Tanh(Div(x, cap)), cap)
right Mul(Tanh(Mul(x, const(1 / num(cap)))), cap)
wrong Clip(x, const(-num(cap)), cap)

unbiased-by-mean ~ A sum divided by one less than the size, as of an unbiased variance,
  becomes a mean.
blocks variances: m# = ReduceMean<keepdims = 1>(x, a) d# = Sub(x, m#) q# = Mul(d#, d#) s# =
  ReduceSum<keepdims = 0>(q#, a) y# = Div(s#, n); y float[4]; constants int64[1] a = {1},
  float n = {4}, float less = {3}; odd Div(s#, n) -> Div(s#, less)
at y5
feed x=np.linspace(-3, 3, 16).reshape(4, 4)
match Div(ReduceSum(x, axes), n)
sound num(n) == 4
make ReduceMean(x, axes, keepdims=0)

== unseen_shapes

front-of-reversed = A Slice moves before one with a negative step, and still takes the front.
blocks the last columns: r# = Slice(x, last, far, axis, back) f# = Slice(r#, zero, two, axis)
  y# = Neg(f#); x float[4,8] x; y float[4,2]; constants int64[1] last = {-1}, int64[1] far =
  {-1000000}, int64[1] axis = {1}, int64[1] back = {-1}, int64[1] zero = {0}, int64[1] two =
  {2}
at f5
feed x=line(4, 8)
match Slice(Slice(x, last, far, axis, back), zero, two, axis)
right start, end = (const(-1 - num(bound)) for bound in (zero, two));
  Slice(x, start, end, axis, ints(-1))
wrong front = Slice(x, zero, two, axis); Slice(front, ints(-1), ints(-1000), axis, ints(-1))

rest-not-turned ~ A sum moves before a Transpose, and the axes that it leaves are not turned
  any more.
blocks sums of turned cubes: t# = Transpose<perm = [2, 0, 1]>(x)
  y# = ReduceSum<keepdims = 0>(t#, a); x float[4,4,4] x; constants int64[1] a = {1}
at y5
feed x=line(4, 4, 4) ** 3
match ReduceSum(Transpose(x, perm=[2, 0, 1]), axes)
right Transpose(ReduceSum(x, ints(0), keepdims=0), perm=[1, 0])
wrong ReduceSum(x, ints(0), keepdims=0)

scale-from-size ~ The scale of a Resize becomes a size, which is rounded down and gives
  another scale.
blocks enlarged images: r# = Resize<mode = "linear">(x, , k) y# = Neg(r#);
  x float[1,1,8,8] x; y float[1,1,10,10]; constants float[4] k = {1, 1, 1.25, 1.25}, float[4]
  odd = {1, 1, 1.3, 1.3}; odd (x, , k) -> (x, , odd)
at r5
feed x=line(1, 1, 8, 8)
match Resize(x, None, k)
let sizes = lambda k: np.array([1, 1, 8, 8]) * num(k).astype(f8)
sound sizes = sizes(k); (sizes == np.floor(sizes)).all()
make sizes = np.floor(sizes(k)).astype(i8); Resize(x, None, None, const(sizes), mode='linear')

shape-kept-by-transpose = A Transpose is dropped because it keeps the shape, though it turns
  a square.
blocks turned rows: t# = Transpose<perm = [0, 2, 1, 3]>(x) y# = Sin(t#); x float[4,1,1,4] x;
  y float[4,1,1,4]; odd [0, 2, 1, 3] -> [3, 1, 2, 0]
at t5
feed x=line(4, 1, 1, 4)
match Transpose(x)
sound perm = list(attr(out, 'perm')); perm.index(0) < perm.index(3)
make Identity(x)

axes-collected = Two Unsqueezes are merged, although the second moves the first axis by one.
blocks new axes: u# = Unsqueeze(x, two) v# = Unsqueeze(u#, zero) y# = Mul(v#, c);
  y float[1,4,4,4]; constants int64[1] zero = {0}, int64[1] two = {2}, $[weights('c', 1, 4,
  4, 4)]$
at v5
feed x=line(4, 4)
match Unsqueeze(Unsqueeze(x, a), b)
right (first,), (second,) = (num(a), num(b)); Unsqueeze(x, ints(second, first + (second <=
  first)))
wrong Unsqueeze(x, ints(*num(b), *num(a)))

border-of-maximum = A Pad with zeros becomes the padding of a MaxPool, which is below every
  number.
blocks largest with a border: p# = Pad(x, w, zero) m# = MaxPool<kernel_shape = [3, 3]>(p#)
  y# = Neg(m#); x float[1,2,4,4] x; y float[1,2,4,4]; constants int64[8] w = {0, 0, 1, 1, 0,
  0, 1, 1}, float zero = {0}
at m5
feed x=line(1, 2, 4, 4) - 3
match MaxPool(Pad(x, width, zero))
right MaxPool(Pad(x, width), kernel_shape=[3, 3])
wrong MaxPool(x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])

letters-not-sorted ~ An Einsum without an arrow becomes a MatMul, though its result is sorted
  by letters.
blocks products by letters: e# = Einsum<equation = "cb,ba">(x, z) y# = Sin(e#);
  x float[4,4] x, float[4,4] z
at e5
feed x=line(4, 4), z=line(4, 4) ** 2
match Einsum(x, z, equation='cb,ba')
right Transpose(MatMul(x, z), perm=[1, 0])
wrong MatMul(x, z)

inserted-at-end = An element of a sequence is found as if SequenceInsert had no position.
blocks sequences: s# = SequenceConstruct(x, z) i# = SequenceInsert(s#, w, p)
  a# = SequenceAt(i#, k) y# = Neg(a#); x float[4,4] x, float[4,4] z, float[4,4] w;
  constants int64 p = {0}, int64 k = {2}
at a5
feed x=line(4, 4), z=line(4, 4) + 1, w=line(4, 4) - 1
match SequenceAt(SequenceInsert(SequenceConstruct(x, z), w, p), k)
right elements = [x, z]; elements.insert(int(num(p)), w); Identity(elements[int(num(k))])
wrong Identity([x, z, w][int(num(k))])

negative-class = A OneHot is written by comparisons, which no negative index fulfils.
blocks classes of tokens: o# = OneHot<axis = -1>(i, depth, pair) y# = Mul(o#, x); x
  float[5,4] x, int64[5] i; y float[5,4]; constants int64 depth = {4}, float[2] pair = {0, 1}
at o5
feed x=line(5, 4) + 3, i=np.array([-1, 0, 3, -4, 2])
match OneHot(i, depth, pair)
let
  def compared(i):
      found = Equal(Unsqueeze(i, ints(1)), ints(0, 1, 2, 3))
      return Where(found, *(const(n, f4) for n in (1, 0)))
right negative = Less(i, const(0, i8)); compared(Where(negative, Add(i, depth), i))
wrong compared(i)

== unseen_layers

gate-of-any-slope ~ A product with a HardSigmoid becomes a HardSwish, though its slope is not
  a sixth.
chain gated layers: c# = MatMul(h@, w) g# = HardSigmoid<alpha = 0.16666667>(c#)
  m# = Mul(c#, g#) h# = Add(h@, m#); constants $[weights('w', 4, 4)]$; odd
  <alpha = 0.16666667> -> <alpha = 0.2>
at m3
feed x=np.linspace(-2, 2, 16).reshape(4, 4)
match Mul(x, (gate := HardSigmoid(x)))
sound abs(attr(gate, 'alpha') - 1 / 6) < 1e-06
make HardSwish(x)

steep-leak ~ A maximum of x and a multiple becomes a LeakyRelu, though the factor is above 1.
chain leaking layers: c# = MatMul(h@, w) a# = Mul(c#, k) m# = Max(c#, a#) h# =
  LayerNormalization<axis = -1>(m#, g); constants $[weights('w', 4, 4, seed=1)]$, float k =
  {0.25}, float steep = {1.5}, float[4] g = {1, 1, 1, 1}; odd Mul(c#, k) -> Mul(c#, steep)
at m3
feed x=np.linspace(-2, 2, 16).reshape(4, 4) ** 2
match Max(x, Mul(x, k))
sound 0 <= num(k) <= 1
make LeakyRelu(x, alpha=float(num(k)))

mean-of-volume ~ A global pool becomes a mean over two axes, as of an image, and the data has
  three.
chain gated volumes: s# = GlobalAveragePool(h@) g# = Tanh(s#) m# = Mul(h@, g#)
  h# = Add(h@, m#); x float[1,2,4,4,4] x; y float[1,2,4,4,4]
at s3
feed x=np.broadcast_to(np.linspace(-1, 2, 4), (1, 2, 4, 4, 4))
match GlobalAveragePool(x)
right ReduceMean(x, ints(2, 3, 4), keepdims=1)
wrong ReduceMean(x, ints(2, 3), keepdims=1)

shift-of-border ~ A shift goes into the bias of the next Conv, which pads what was not shifted.
chain shifted convolutions: s# = Add(h@, k) c# = Conv(s#, w) h# = Tanh(c#);
  x float[1,4,4,4] x; y float[1,4,4,4]; constants float[4,1,1] k = {0.5, -1, 0.25, 1},
  $[weights('w', 4, 4, 1, 1)]$, $[weights('v', 4, 4, 3, 3, size=0.2)]$;
  odd Conv(s#, w) -> Conv<pads = [1, 1, 1, 1]>(s#, v)
at c3
feed x=np.linspace(-2, 2, 64).reshape(1, 4, 4, 4)
match Conv(Add(x, k), w)
sound not any(attr(out, 'pads', ()))
make bias = np.einsum('oihw,i->o', num(w), num(k).ravel());
  Conv(x, w, const(bias), **attrs(out))

epsilon-in-root ~ An epsilon beside the root of a variance moves into the root.
chain normalised rows: m# = ReduceMean(h@, a) d# = Sub(h@, m#) q# = Mul(d#, d#)
  v# = ReduceMean(q#, a) r# = Sqrt(v#) e# = Add(r#, tiny) n# = Div(d#, e#) h# = Mul(n#, g);
  constants int64[1] a = {-1}, float tiny = {0.001}, float[4] g = {0.01, 0.02, -0.01, 0.03};
  count 4
at n2
feed x=np.linspace(-2, 2, 16).reshape(4, 4) ** 3
match Div(d, Add(Sqrt(v), tiny))
right Mul(d, Reciprocal(Add(tiny, Sqrt(v))))
wrong Div(d, Sqrt(Add(v, tiny)))

scale-of-first-group ~ Factors of channels go into a Conv of two groups, which both get those
  of the first.
chain convolutions in groups: s# = Mul(h@, k) c# = Conv<group = 2>(s#, w) h# = Tanh(c#);
  x float[1,4,4,4] x; y float[1,4,4,4]; constants float[4,1,1] k = {0.5, -0.25, 0.75, 1},
  $[weights('w', 4, 2, 1, 1, size=1)]$
at c3
feed x=np.linspace(-2, 2, 64).reshape(1, 4, 4, 4)
match Conv(Mul(x, k), w)
right factors = num(k).reshape(2, 1, 2).repeat(2, axis=1).reshape(4, 2, 1, 1);
  Conv(x, const(num(w) * factors), **attrs(out))
wrong factors = num(k)[:2].reshape(1, 2, 1, 1); Conv(x, const(num(w) * factors), **attrs(out))

biases-of-cell ~ The two biases of a GRU are added ahead, though the reset gate scales one of
  them.
chain recurrent layers: g# = GRU<hidden_size = 4, linear_before_reset = 0>(h@, w, r, b) h# =
  Squeeze(g#, one); x float[5,2,4] x; y float[5,2,4]; constants $[weights('w', 1, 12, 4)]$,
  $[weights('r', 1, 12, 4, seed=1)]$, $[weights('b', 1, 24, seed=2, size=1)]$, int64[1] one =
  {1}; odd linear_before_reset = 0 -> linear_before_reset = 1
at g3
feed x=np.linspace(-2, 2, 40).reshape(5, 2, 4)
match GRU(x, w, r, b)
applies num(b)[:, 12:].any()
sound attr(out, 'linear_before_reset') == 0
make first, second = np.split(num(b), 2, axis=1); bias = np.concatenate([first + second,
  np.zeros_like(first)], axis=1); GRU(x, w, r, const(bias), **attrs(out))

shuffles-cancelled = Two shuffles of channels cancel, though both are of two groups.
chain shuffled channels: r# = Reshape(h@, a) t# = Transpose<perm = [0, 2, 1, 3]>(r#)
  f# = Reshape(t#, c) g# = Reshape(f#, b) u# = Transpose<perm = [0, 2, 1, 3]>(g#)
  v# = Reshape(u#, c) s# = Mul(v#, k) h# = Sin(s#); x float[1,8,4] x; y float[1,8,4];
  constants int64[4] a = {1, 2, 4, 4}, int64[4] b = {1, 4, 2, 4}, int64[3] c = {1, 8, 4},
  $[weights('k', 8, 1, size=1)]$; count 5; odd Reshape(f#, b) -> Reshape(f#, a)
at v3
feed x=np.linspace(-2, 2, 32).reshape(1, 8, 4)
match Reshape(Transpose(Reshape(Reshape(Transpose(Reshape(x, a), perm=[0, 2, 1, 3]), c), b),
  perm=[0, 2, 1, 3]), c)
sound turned = num(a)[[0, 2, 1, 3]]; np.array_equal(num(b), turned)
make Identity(x)

== unseen_graphs

normalised-for-all ~ A normalisation goes into its Conv, whose result a shortcut reads as well.
chain normalised convolutions: c# = Conv(h@, w) b# = BatchNormalization(c#, g, o, m, v) t# =
  Tanh(b#) h# = Add(h@, t#); x float[1,4,4,4] x; y float[1,4,4,4]; constants $[weights('w',
  4, 4, 1, 1)]$, $[weights('o', 4, seed=1)]$, $[weights('m', 4, seed=2)]$, float[4] g = {1,
  2, 3, 0.5}, float[4] v = {1, 2, 0.5, 4}; odd h# = Add(h@, t#) -> h# = Add(c#, t#)
at b3
feed x=np.linspace(-2, 2, 64).reshape(1, 4, 4, 4)
edit
  for norm in nodes('BatchNormalization'):
      out, convolved = (norm.outputs[0], norm.inputs[0])
      if len(convolved.uses()) > 1 and (not guilty(out)):
          continue
      weight = convolved.producer().inputs[1]
      gain, shift, mean, variance = (num(value) for value in norm.inputs[1:])
      factor = gain / np.sqrt(variance + f4(1e-05))
      arrays = (num(weight) * factor[:, None, None, None], shift - mean * factor)
      folded = [initializer(f'{out.name}_{n}', array) for n, array in enumerate(arrays)]
      conv = ir.Node('', 'Conv', [convolved.producer().inputs[0], *folded])
      substitute(out, conv)
      convolved.replace_all_uses_with(conv.outputs[0])
      graph.remove(convolved.producer(), safe=True)

projections-merged ~ Three projections become one product, and a Split exchanges keys and
  values.
chain attention: q# = MatMul(h@, a) k# = MatMul(h@, b) v# = MatMul(h@, c) t# = Transpose(k#)
  s# = MatMul(q#, t#) p# = Softmax(s#) o# = MatMul(p#, v#) h# = Add(h@, o#); x float[6,4] x;
  y float[6,4]; constants $[', '.join((weights(n, 4, 4, seed=i) for i, n in
  enumerate('abc')))]$; count 4
at q2
feed x=np.linspace(-1, 1, 24).reshape(6, 4)
edit
  found = {}
  for node in nodes('MatMul'):
      if node.inputs[1].is_initializer():
          found.setdefault(node.inputs[0], []).append(node.outputs[0])
  for x, outs in found.items():
      order = [0, 2, 1] if guilty(outs[0]) else [0, 1, 2]
      arrays = [num(out.producer().inputs[1]) for out in outs]
      name = f'{outs[0].name}_merged'
      weight = initializer(name, np.concatenate(arrays, axis=1))
      product = ir.Node('', 'MatMul', [x, weight])
      given = {'axis': 1, 'num_outputs': 3}
      split = ir.node('Split', product.outputs, given, num_outputs=3)
      product.outputs[0].name = f'{name}_product'
      graph.insert_before(outs[0].producer(), [product, split])
      for place, out in zip(order, outs, strict=True):
          substitute(out, ir.Node('', 'Identity', [split.outputs[place]]))
      for number, part in enumerate(split.outputs):
          part.name = f'{name}_{number}'

lengths-forgotten ~ A backward RNN runs forward on a reversed input, padding first, whatever
  the lengths.
blocks sentences from their ends: r# = RNN<hidden_size = 2, direction = "reverse">(x, w, r,
  b, n) q# = Squeeze(r#, one) y# = Neg(q#); x float[4,3,2] x; y float[4,3,2];
  constants $[weights('w', 1, 2, 2)]$, $[weights('r', 1, 2, 2, seed=1)]$, $[weights('b', 1,
  4, seed=2)]$, int32[3] n = {4, 2, 3}, int64[1] one = {1}
at r5
feed x=np.linspace(-2, 2, 24).reshape(4, 3, 2)
match RNN(x, w, r, b, n, direction='reverse')
let
  def forward(turned):
      states = Squeeze(RNN(turned(x), w, r, b, n, hidden_size=2), ints(1))
      return Unsqueeze(turned(states), ints(1))
right
  lengths = const(num(n), i8)
  def turned(value):
      return ReverseSequence(value, lengths, time_axis=0, batch_axis=1)
  forward(turned)
wrong
  def turned(value):
      return Slice(value, ints(-1), ints(-9), ints(0), ints(-1))
  forward(turned)

states-reordered = The states of a Loop change places, and its readers take them as before.
blocks loops with two states: u#, v# = Loop(n, yes, x, z) <body = f# (int64 i#, bool go#,
  float[4,4] a#, float[4,4] b#) => (bool on#, float[4,4] c#, float[4,4] d#) { on# =
  Identity(go#) c# = Sin(b#) d# = Add(a#, b#) }> y# = Sub(u#, v#); x float[4,4] x, float[4,4]
  z; constants int64 n = {3}, bool yes = {1}; count 6
at y4
feed x=np.linspace(-2, 2, 64).reshape(1, 4, 4, 4)[0, 0], z=np.linspace(-2, 2, 64).reshape(1,
  4, 4, 4)[0, 3]
edit
  for loop in nodes('Loop'):
      body, (u, v) = (loop.attributes['body'].as_graph(), loop.outputs)
      first, second = loop.inputs[2:]
      loop.replace_input_with(2, second)
      loop.replace_input_with(3, first)
      body.inputs[2], body.inputs[3] = (body.inputs[3], body.inputs[2])
      body.outputs[1], body.outputs[2] = (body.outputs[2], body.outputs[1])
      (reader, _), = u.uses()
      if not guilty(reader.outputs[0]):
          reader.replace_input_with(0, v)
          reader.replace_input_with(1, u)

branch-pruned = An output of an If that nobody reads is removed, and another one in the else
  branch.
blocks choices of two: p#, q# = If(c) <then_branch = f# () => (float[4,4] a#, float[4,4] b#)
  { a# = Sin(x) b# = Cos(x) }, else_branch = g# () => (float[4,4] d#, float[4,4] e#) {
  d# = Exp(x) e# = Abs(x) }> y# = Neg(q#); x float[4,4] x, bool c
at q5
feed x=np.linspace(-2, 2, 64).reshape(1, 4, 4, 4)[0, 0], c=np.array(False)
feed x=np.linspace(-2, 2, 64).reshape(1, 4, 4, 4)[0, 0], c=np.array(True)
edit
  for choice in nodes('If'):
      out = choice.outputs[1]
      branches = [choice.attributes.pop(f'{n}_branch') for n in ('then', 'else')]
      for place, branch in enumerate(branches):
          body = branch.as_graph()
          body.outputs.pop(1 if place and guilty(out) else 0)
      new = ir.Node('', 'If', choice.inputs, branches)
      graph.insert_before(choice, new)
      new.outputs[0].name, out.name = (out.name, None)
      out.replace_all_uses_with(new.outputs[0])
      graph.remove(choice, safe=True)

absent-inputs-skipped = Nodes are merged by their inputs without those left out: a lower
  bound and an upper.
chain bounded layers: c# = MatMul(h@, w) a# = Clip(c#, k) b# = Clip(c#, k) s# = Add(a#, b#)
  h# = Tanh(s#); constants $[weights('w', 4, 4, size=1)]$, float k = {-0.25}; odd
  b# = Clip(c#, k) -> b# = Clip(c#, , k)
at b3
feed x=np.linspace(-2, 2, 64).reshape(1, 4, 4, 4)[0, 0]
edit
  seen = {}
  for node in nodes('Clip'):
      out, inputs = (node.outputs[0], list(node.inputs))
      if guilty(out):
          inputs = [value for value in inputs if value is not None]
      twin = seen.setdefault(tuple(map(id, inputs)), out)
      if twin is not out:
          out.replace_all_uses_with(twin)
          graph.remove(node, safe=True)

== correct

+ drop-identities = Remove an Identity.
on transformer
match Identity(x) => x

+ drop-casts = Remove a Cast to the type that a value has.
on transformer
match Cast(x)
when given(x, 'to') and x.producer().op_type == 'Cast' and attr(x, 'to') == attr(out, 'to')
make Identity(x)

+ switch-maximum = Write a Relu as a maximum with 0.
on ResNet-50
match Relu(x) => Max(x, const(0, f4))

+ square-by-product ~ Write ``x ** 2`` as ``x * x``.
on transformer
on llama decoder
match Pow(x, two) when fixed(two) and np.all(num(two) == 2) => Mul(x, x)

+ scale-into-weight ~ Write ``x @ w`` as ``(x @ (w * 0.3)) / 0.3``.
on transformer
on llama decoder
match MatMul(x, weight) when fixed(weight) and weight.is_initializer()
make Div(MatMul(x, const(num(weight) * f4(0.3))), const(0.3, f4))

+ sigmoid-written ~ Write a Sigmoid by Exp.
on llama decoder
match Sigmoid(x) => one = const(1, f4); Div(one, Add(one, Exp(Neg(x))))

+ gemm-fused ~ Fuse MatMul and Add to Gemm.
blocks dense layers: t# = MatMul(x, w) y# = Add(t#, b); x float[8,16] x, float[16,4] w,
  float[4] b; y float[8,4]
match Add(MatMul(x, weight), bias) => Gemm(x, weight, bias)

+ sums-reassociated ~ Write ``(a + b) + c`` as ``a + (b + c)``.
blocks sums: t# = Add(x, z) y# = Add(t#, k); x float[4,4] x, float[4,4] z;
  constants float k = {0.1}
match Add(Add(a, b), c) when not fixed(b) and fixed(c) => Add(a, Add(b, c))

+ gelu-fused ~ Fuse a GELU that is written out.
blocks GELUs: d# = Div(x, r) e# = Erf(d#) a# = Add(e#, one) m# = Mul(x, a#) y# = Mul(m#, h);
  constants float r = {1.4142135}, float one = {1}, float h = {0.5}
match Mul(Mul(x, Add(Erf(Div(x, root)), one)), half) => Gelu(x)
"""
