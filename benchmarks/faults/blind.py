"""Faults written by somebody who did not know how the gate looks for them."""

TEXT = """
== blind_values

index-behind-slice = A Gather skips a Slice, and a negative index is moved like one from the
  front.
blocks rows behind a Slice: s# = Slice(x, two, far, zero) g# = Gather<axis = 0>(s#, i)
  y# = Sin(g#); x float[8,4] x, int64[3] i; y float[3,4];
  constants int64[1] two = {2}, int64[1] far = {1000000}, int64[1] zero = {0}
feed x=np.linspace(-1, 1, 32).reshape(8, 4), i=np.array([-1, -6, 2])
match Gather(Slice(x, start, end, axes), i)
right negative = Less(i, const(0, i8)); Gather(x, Where(negative, i, Add(i, start)), axis=0)
wrong Gather(x, Add(i, start), axis=0)

round-by-floor = A Round becomes a Floor of half more, which rounds 2.5 to 3 and not to 2.
blocks rounded numbers: f# = Cast<to = 1>(u) r# = Round(f#) y# = Abs(r#);
  x float[4,4] x, uint8[4,4] u; odd Round(f#) -> Round(x)
at r5
feed x=np.arange(16).reshape(4, 4) / 2, u=np.zeros((4, 4), u1)
match Round(x)
sound producer = x.producer(); producer is not None and producer.op_type == 'Cast'
make Floor(Add(x, const(0.5, f4)))

sorted-backwards = A TopK reads a whole sorted row from its end, so that equal elements
  change places.
blocks the best four: v#, i# = TopK<axis = 1>(x, k) y# = Add(i#, one); x float[4,8] x;
  y int64[4,4]; constants int64[1] k = {4}, int64 one = {1}
feed x=np.zeros((4, 8))
match TopK(x, k, _outputs=['out', 'indices']) when not given(out, 'largest')
right low, indices = TopK(Neg(x), k, axis=1, largest=0, _outputs=2); (Neg(low), indices)
wrong every = const([8], i8); ordered = TopK(x, every, axis=1, largest=0, _outputs=2);
  bounds = [const([n], i8) for n in (-1, -5, 1, -1)]; tuple((Slice(value, *bounds) for value
  in ordered))

rounded-behind-zero-point = A quantiser adds its odd zero point before it rounds, which turns
  ties around.
blocks levels with a zero point: y# = QuantizeLinear(x, s, z); y uint8[4,4];
  constants float s = {0.5}, uint8 z = {3}
feed x=np.arange(16).reshape(4, 4) / 4 - 1
match QuantizeLinear(x, s, z)
let
  def stored(levels):
      low, high = (const(v, f4) for v in (0, 255))
      return Cast(Clip(levels, low, high), to=ir.DataType.UINT8)
right zero = const(num(z), f4); stored(Add(Round(Div(x, s)), zero))
wrong zero = const(num(z), f4); stored(Round(Add(Div(x, s), zero)))

abs-behind-cast = An Abs of int8 moves behind a Cast, where that of -128 is 128 and no longer
  -128.
blocks magnitudes of bytes: a# = Abs(x) y# = Cast<to = 6>(a#); x int8[16] x; y int32[16]
feed x=np.full(16, -128, i1)
match Cast(Abs(x))
right size = Abs(Cast(x, to=ir.DataType.INT32)); limit, lowest = (const(n, i4) for n in (128,
  -128)); Where(Equal(size, limit), lowest, size)
wrong Abs(Cast(x, to=ir.DataType.INT32))

relu-by-saturation = A Relu is left to a quantiser with a zero point of 0, whose type has a
  sign.
blocks quantised activations: r# = Relu(x) q# = QuantizeLinear(r#, s, u) y# =
  DequantizeLinear(q#, s, u); constants float s = {0.05}, uint8 u = {0}, int8 i = {0}; odd
  (r#, s, u) y# = DequantizeLinear(q#, s, u) -> (r#, s, i) y# = DequantizeLinear(q#, s, i)
at q5
match QuantizeLinear(Relu(x), s, z)
applies not num(z).any()
sound z.dtype == ir.DataType.UINT8
make QuantizeLinear(x, s, z)

float-holds-int = A Cast of int32 to float and back is removed, though float has 24 bits only.
blocks integers by way of floats: f# = Cast<to = 11>(x) b# = Cast<to = 6>(f#)
  y# = BitwiseNot(b#); x int32[16] x; y int32[16]; odd to = 11 -> to = 1
at b5
feed x=np.arange(16, dtype=i4) + (1 << 24)
like rounding-cancelled

axis-of-scales = A DequantizeLinear gets axis 0, and its default is 1.
blocks scales by channel: y# = DequantizeLinear(x, s, z); x int8[4,4] x;
  constants float[4] s = {0.1, 0.2, 0.3, 0.4}, int8[4] z = {0, 1, 2, 3}
match DequantizeLinear(x, s, z) when not given(out, 'axis')
right DequantizeLinear(x, s, z, axis=1)
wrong DequantizeLinear(x, s, z, axis=0)

softmax-of-new-opset ~ A Softmax of opset 12 gets the default axis of opset 13.
blocks old classes: y# = Softmax(x); x float[2,3,4] x; y float[2,3,4]; opset 12
match Softmax(x) when not given(out, 'axis')
right Softmax(x, axis=1)
wrong Softmax(x, axis=-1)

mask-added ~ A mask is added to scores and not put in their place: not for rows without a
  token.
blocks scores with a mask: w# = Where(m, x, low) y# = Softmax<axis = -1>(w#);
  x float[4,8] x, bool[4,8] m; y float[4,8]; constants float low = {-1000000000}
feed x=np.linspace(-1, 1, 32).reshape(4, 8), m=np.zeros((4, 8), bool)
match Softmax(Where(m, x, low)) when m.is_graph_input()
right Softmax(Where(Not(m), low, x), axis=1)
wrong zero, masked = (const(n, f4) for n in (0, -10000));
  Softmax(Add(x, Where(m, zero, masked)), axis=1)

== blind_shapes

negative-axis-moved ~ A Softmax moves behind an Unsqueeze, and its axis -1 is the new one then.
blocks classes as a column: s# = Softmax<axis = -1>(x) u# = Unsqueeze(s#, a) y# = Neg(u#);
  y float[4,4,1]; constants int64[1] a = {-1}
match Unsqueeze(Softmax(x), axes)
right Softmax(Unsqueeze(x, axes), axis=-2)
wrong Softmax(Unsqueeze(x, axes), axis=-1)

past-forgotten = A causal mask begins at the diagonal, also where there are more keys than
  queries.
blocks causal scores with a past: l# = Shape<start = 1, end = 2>(x)
  q# = Shape<start = 0, end = 1>(x) d# = Sub(l#, q#) k# = Squeeze(d#)
  y# = Trilu<upper = 0>(x, k#); x float[Q,K] x; y float[A,B]; count 6
feed x=np.ones((2, 5))
match Trilu(x, k) when x.is_graph_input() and (not fixed(k))
right turned = Transpose(x, perm=[1, 0]); Transpose(Trilu(turned, Neg(k), upper=1), perm=[1,
  0])
wrong Trilu(x, const(0, i8), upper=0)

factor-out-of-sum ~ A factor leaves a sum, though it is a vector along the axis that is summed.
blocks sums of products: m# = Mul(x, k) y# = ReduceSum<keepdims = 0>(m#, a); y float[4];
  constants float[1] k = {3}, float[4] v = {1, 2, 3, 4}, int64[1] a = {1};
  odd Mul(x, k) -> Mul(x, v)
at y5
match ReduceSum(Mul(x, k), axes)
sound num(k).size == 1
make Mul(ReduceSum(x, axes, keepdims=0), k)

odd-one-kept = A pool over pairs becomes a Max of two Slices, and the first may be longer by
  one.
blocks largest of pairs: p# = MaxPool<kernel_shape = [2], strides = [2]>(x) y# = Neg(p#);
  x float[1,2,L] x; y float[1,2,M]; count 6
feed x=np.linspace(-1, 1, 14).reshape(1, 2, 7)
match MaxPool(x)
let
  def paired(x, size, end):
      axis, step = (ints(2), ints(2))
      first = Slice(x, ints(0), end, axis, step)
      return Max(first, Slice(x, ints(1), size, axis, step))
right size = Shape(x, start=2, end=3); paired(x, size, Sub(size, Mod(size, ints(2))))
wrong size = Shape(x, start=2, end=3); paired(x, size, size)

vector-not-turned = A Transpose moves before a sum, and a vector in it stays a row.
blocks turned sums: a# = Add(x, c) y# = Transpose<perm = [1, 0]>(a#); constants float[4,4] c =
  {$[', '.join(map(str, range(16)))]$}, float[4] v = {1, 2, 3, 4}; odd Add(x, c) -> Add(x, v)
at y5
match Transpose(Add(x, c))
sound num(c).ndim == 2
make Add(Transpose(x), Transpose(c))

product-squeezed ~ A product with a vector becomes one with a row, and loses an axis of size
  1 as well.
blocks a vector by matrices: m# = MatMul(v, x) y# = Neg(m#); x float[4,N] x; y float[M];
  constants float[4] v = {1, 2, 3, 4}; count 6
feed x=np.ones((4, 1))
match MatMul(v, x) when v.producer() is None
right Squeeze(MatMul(Unsqueeze(v, ints(0)), x), ints(0))
wrong Squeeze(MatMul(Unsqueeze(v, ints(0)), x))

all-by-mean = A mean of 1 is to show that all of a tensor is true: not if it is empty.
blocks whether all are large: c# = Greater(x, k) i# = Cast<to = 7>(c#)
  s# = ReduceSum<keepdims = 0>(i#) n# = Size(c#) y# = Equal(s#, n#); x float[N,4] x; y bool;
  constants float k = {-2.5}; count 6
feed x=np.zeros((0, 4))
match Equal(ReduceSum(Cast(c, to=ir.DataType.INT64)), Size(c))
right others = Cast(Not(c), to=ir.DataType.INT64); Equal(ReduceSum(others, keepdims=0),
  const(0, i8))
wrong mean = ReduceMean(Cast(c, to=ir.DataType.FLOAT), keepdims=0); Equal(mean, const(1, f4))

allowzero-lost = Two Reshapes are merged without the second's ``allowzero``: not for no rows.
blocks rows read as columns: h# = Shape(x) s# = Gather(h#, turn) f# = Reshape(x, flat)
  r# = Reshape<allowzero = 1>(f#, s#) y# = Neg(r#); x float[N,4] x; y float[4,M];
  constants int64[2] turn = {1, 0}, int64[1] flat = {-1}; count 6
feed x=rows(0)
match Reshape(Reshape(x, flat), shape)
right Reshape(x, shape, **attrs(out))
wrong Reshape(x, shape)

== blind_bodies

last-of-collected = The last state of a Loop is read from those that it collects, which may
  be none.
model a Loop that collects its state: (float[8] x, int64 n) => (float[8] y, float[T,8] z) <bool
  yes = {1}> { r, z = Loop(n, yes, x) <body = step (int64 i, bool go, float[8] s) => (bool on,
  float[8] t, float[8] u) { on = Identity(go) t = Sin(s) u = Identity(t) }> y = Neg(r) }
at r
feed x=np.ones(8), n=np.array(0)
edit
  loop, = nodes('Loop')
  state, collected = loop.outputs
  zero, last = (initializer('first', [0]), initializer('last', -1))
  start = ir.Node('', 'Unsqueeze', [loop.inputs[2], zero])
  joined = ir.Node('', 'Concat', [start.outputs[0], collected], [ir.AttrInt64('axis', 0)])
  read = collected if at else joined.outputs[0]
  picked = ir.Node('', 'Gather', [read, last])
  new = [picked] if at else [start, joined, picked]
  for node in new:
      node.outputs[0].name = f'{node.op_type}_of_states'
  graph.insert_after(loop, new)
  state.replace_all_uses_with(picked.outputs[0])

iterations-assumed = The length of what a Loop collects becomes its trip count, though it may
  stop early.
model Loops that are counted: (float[8] x) => (float[8] y, int64[1] c, float[8] z, int64[1]
  d) <int64 n = {6}, bool yes = {1}, float k = {1.5}, float limit = {40}> { y, p = Loop(n,
  yes, x) <body = f (int64 i, bool go, float[8] s) => (bool on, float[8] t, float[8] a) { on
  = Identity(go) t = Sin(s) a = Cos(s) }> c = Shape<start = 0, end = 1>(p) z, q = Loop(n,
  yes, x) <body = g (int64 j, bool more, float[8] u) => (bool still, float[8] v, float[8] w)
  { v = Mul(u, k) w = Abs(v) m = ReduceMax<keepdims = 0>(w) still = Less(m, limit) }> d =
  Shape<start = 0, end = 1>(q) }
at d
feed x=np.full(8, 20.0)
edit
  for node in nodes('Shape'):
      loop = node.inputs[0].producer()
      body = loop.attributes['body'].as_graph()
      condition = body.outputs[0].producer()
      if condition.op_type == 'Identity' or at:
          out = node.outputs[0]
          count = num(loop.inputs[0]).reshape(1)
          size = initializer(f'{out.name}_size', count)
          substitute(out, ir.Node('', 'Identity', [size]))

gather-hoisted = A Gather leaves the branch of an If that makes sure that there is such a row.
model a third row, if there is one: (float[N,4] x, float[4] z) => (float[4] y)
  <int64 two = {2}> { c = Shape<start = 0, end = 1>(x) m = Squeeze(c) big = Greater(m, two)
  y = If(big) <then_branch = f () => (float[4] u) { a = Gather<axis = 0>(x, two)
  u = Sin(a) }, else_branch = g () => (float[4] v) { b = Neg(z) v = Cos(b) }> }
at a
feed x=np.ones((1, 4)), z=np.ones(4)
edit
  choice, = nodes('If')
  total = {'Neg', 'Gather'} if at else {'Neg'}
  for branch in choice.attributes.values():
      body = branch.as_graph()
      for node in [n for n in body if n.op_type in total]:
          body.remove(node)
          graph.insert_before(choice, node)

bodies-taken-for-equal = Ifs are merged if the operators in their branches are the same, with
  any attributes.
blocks equal choices: a# = If(c) <then_branch = f# () => (float[4,4] p#) { p# = Sin(x) },
  else_branch = g# () => (float[4,4] q#) { q# = LeakyRelu<alpha = 0.25>(x) }> b# = If(c)
  <then_branch = h# () => (float[4,4] r#) { r# = Sin(x) }, else_branch = k# ()
  => (float[4,4] s#) { s# = LeakyRelu<alpha = 0.25>(x) }> y# = Mul(a#, b#);
  x float[4,4] x, bool c; odd s# = LeakyRelu<alpha = 0.25> -> s# = LeakyRelu<alpha = 0.5>
at b5
feed x=np.full((4, 4), -1.0), c=np.array(False)
let told = lambda branch: (branch.name, *((node.op_type, *map(id, node.inputs), *((k,
  v.value) for k, v in node.attributes.items() if not at)) for node in branch.as_graph()))
edit
  seen = {}
  for node in nodes('If'):
      key = (id(node.inputs[0]), *map(told, node.attributes.values()))
      twin = seen.setdefault(key, node.outputs[0])
      if twin is not node.outputs[0]:
          node.outputs[0].replace_all_uses_with(twin)
          graph.remove(node, safe=True)

names-of-attributes-ignored = Nodes are merged if the values of their attributes are equal,
  whatever their names.
blocks products of turned matrices: a# = Gemm<transA = 1>(x, z) b# = Gemm<transA = 1>(x, z)
  y# = Mul(a#, b#); x float[4,4] x, float[4,4] z; odd b# = Gemm<transA = 1> ->
  b# = Gemm<transB = 1>
at b5
edit
  seen = {}
  for node in nodes('Gemm'):
      given = [(k, v.value) for k, v in sorted(node.attributes.items())]
      known_by = tuple((v for _, v in given)) if at else tuple(given)
      key = (tuple(map(id, node.inputs)), known_by)
      twin = seen.setdefault(key, node.outputs[0])
      if twin is not node.outputs[0]:
          node.outputs[0].replace_all_uses_with(twin)
          graph.remove(node, safe=True)

readers-of-branch-forgotten ~ A factor is multiplied into a weight in place, which the branch
  of an If reads too.
model weights that a branch reads too: (float[4,4] x, bool c)
  => (float[4,4] y, float[4,4] z, float[4,4] o) <float[4,4] w = {$[', '.join(map(str,
  range(16)))]$}, float[4,4] v = {$[', '.join(map(str, range(16)))]$}, float k = {3}> {
  m = MatMul(x, w) y = Mul(m, k) n = MatMul(x, v) z = Mul(n, k) o = If(c) <then_branch = f ()
  => (float[4,4] p) { p = Add(x, w) }, else_branch = g () => (float[4,4] q) { q = Neg(x) }> }
at w
feed x=np.ones((4, 4)), c=np.array(True)
edit
  for node in nodes('Mul'):
      product, out = (node.inputs[0].producer(), node.outputs[0])
      x, weight = product.inputs
      scaled = num(weight) * num(node.inputs[1])
      here = [n for n in graph if weight in n.inputs] if at else weight.uses()
      if len(here) == 1:
          weight.const_value = ir.tensor(scaled)
      else:
          weight = initializer(f'{weight.name}_scaled', scaled)
      substitute(out, ir.Node('', 'MatMul', [x, weight]))
      graph.remove(product, safe=True)
"""
