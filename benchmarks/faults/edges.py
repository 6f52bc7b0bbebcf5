"""Faults at half precision, at odd sizes, and in how the model is called."""

TEXT = """
== halves

half-scale-off ~ A factor in half precision is off by a hundredth.
blocks half-precision layers: m# = MatMul(x, w) s# = Mul(m#, k) a# = Add(s#, b) r# = Relu(a#)
  y# = Tanh(r#); x float16[4,8] x; y float16[4,8]; constants float16[8,8] w =
  {$[bits(*np.linspace(-1, 1, 64))]$}, float16 k = {13722}, float16[8] b =
  {$[bits(*np.linspace(-1, 1, 64)[::8])]$}
at s5
match Mul(x, k) when fixed(k)
right Mul(const(num(k)), x)
wrong Mul(const(num(k) * f2(1.01)), x)

half-relu-dropped = A Relu in half precision is dropped.
on half-precision layers at r5
like relus-before-softmax
right Max(x, const(0, f2))

rounding-forgotten = Casts to half precision and back are removed, and with them the rounding.
blocks roundings to half precision: h# = Cast<to = 10>(x) f# = Cast<to = 1>(h#)
  d# = Sub(x, f#) y# = Mul(d#, k); constants float k = {1000}
at f5
match Cast(Cast(x, to=HALF), to=FLOAT)
right half = CastLike(x, const(0, f2)); CastLike(half, const(0, f4))
wrong Identity(x)

half-epsilon ~ The epsilon of a LayerNorm over small values in half precision is 1e-6, not
  1e-5.
blocks half-precision norms: t# = Mul(x, k) y# = LayerNormalization<axis = -1, epsilon =
  0.00001>(t#, g); x float16[4,8] x; y float16[4,8]; constants float16 k = {7193}, float16[8]
  g = {$[bits(*[1] * 8)]$}
at y5
match LayerNormalization(x, scale) when attr(out, 'axis') == -1
right LayerNormalization(x, scale, axis=1, epsilon=attr(out, 'epsilon'))
wrong LayerNormalization(x, scale, axis=1, epsilon=1e-06)

bounds-in-float = Bounds in bfloat16 move behind the Cast to float, and one gets a rounded
  value.
blocks bfloat16 bounds: b# = Cast<to = 16>(x) c# = Clip(b#, low, high) y# = Cast<to = 1>(c#);
  constants bfloat16 low = {49024}, bfloat16 high = {16256}
at y5
match Cast(Clip(x, low, high), to=FLOAT)
right Clip(Cast(x, to=FLOAT), const(-1, f4), const(1, f4))
wrong Clip(Cast(x, to=FLOAT), const(-1, f4), const(0.98, f4))

half-biases-merged ~ Two biases in half precision are added ahead, and 2 % of the second are
  lost.
blocks half-precision biases: m# = MatMul(x, w) a# = Add(m#, b) c# = Add(a#, d) y# = Neg(c#);
  x float16[4,8] x; y float16[4,8]; constants float16[8,8] w = {$[bits(*np.linspace(-1, 1,
  64))]$}, float16[8] b = {$[bits(*np.linspace(-1, 1, 64)[::8])]$}, float16[8] d = {$[bits(*8
  * np.linspace(-1, 1, 64)[1::8])]$}
at c5
match Add(Add(x, first), second)
right Add(x, const(num(first) + num(second)))
wrong Add(x, const(num(first) + num(second) * f2(0.98)))

+ whole-slice-removed = Remove a Slice of everything in a half-precision model.
model a Slice of everything: (float16[4,8] x) => (float16[4,8] y, float16[4,8] z)
  <float16 k = {16896}, float16 c = {25552}, int64[1] o = {0}, int64[1] e = {100}> {
  p = Sin(x) t = Mul(p, c) s = Slice(t, o, e, o) a = Transpose(s) b = Transpose(a)
  y = Mul(b, k) d = Sub(b, s) z = Add(d, x) }
model another Slice of everything: (float16[4,8] x) => (float16[4,8] y)
  <float16[8,8] w = {$[bits(*np.linspace(-1, 1, 64))]$}, float16[8] b =
  {$[bits(*np.linspace(-1, 1, 64)[::8])]$}, float16 k = {13517}, int64[1] o = {0}, int64[1] e
  = {100}> { t = Mul(x, k) u = Add(t, b) s = Slice(u, o, e, o) p = Mul(s, u) q = Sub(p, x)
  m = MatMul(q, w) f = Slice(m, o, e, o) g = Mul(f, k) h = Sub(g, m) y = Add(h, b) }
match Slice(x, start, end, axes) => x

+ half-nodes-merged = Merge the equal nodes of a half-precision model.
on half-precision layers
edit
  seen = {}
  for node in list(model.graph):
      twin = seen.setdefault((node.op_type, *map(id, node.inputs)), node)
      if twin is not node and (not node.outputs[0].is_graph_output()):
          node.outputs[0].replace_all_uses_with(twin.outputs[0])
          graph.remove(node, safe=True)

== halves_more

bound-rounded = The bounds of a Clip in half precision pass through float8.
blocks half-precision bounds: s# = Mul(x, k) c# = Clip(s#, low, high) y# = Tanh(c#);
  x float16[6,6] x; y float16[6,6]; constants float16 k = {16896}, float16 low = {48230},
  float16 high = {15462}
at c5
match Clip(x, low, high)
right Max(Min(x, high), low)
wrong bounds = [const(num(v).astype(ml_dtypes.float8_e4m3fn).astype(f2)) for v in (low,
  high)]; Max(Min(x, bounds[1]), bounds[0])

computed-in-half ~ A difference that is computed in single precision moves to half precision.
blocks a product in single precision: f# = Cast<to = 1>(x) m# = MatMul(f#, w) d# = Sub(m#, k)
  h# = Cast<to = 10>(d#) y# = Neg(h#); x float16[6,6] x; y float16[6,6]; constants float[6,6]
  w = {$[', '.join((f'{n:.4f}' for n in 300 * np.cos(np.arange(36))))]$}, float k = {1000.0}
at d5
match Sub(x, k)
right Add(x, const(-num(k)))
wrong half = Cast(x, to=ir.DataType.FLOAT16); difference = Add(half, const(-num(k), f2));
  Cast(difference, to=FLOAT)

scale-of-attention ~ The scale of scores in half precision is 0.4, and not the root of a sixth.
blocks half-precision attention: q# = MatMul(x, w) s# = Mul(q#, k)
  y# = Softmax<axis = -1>(s#); x float16[6,6] x; y float16[6,6];
  constants float16[6,6] w = {$[bits(*np.cos(np.arange(36)))]$}, float16 k = {13960}
at s5
like half-scale-off
wrong Mul(const(0.4, f2), x)

transposed-in-float = A Transpose in bfloat16 moves to float, and the Cast to bfloat16 is
  lost once.
blocks bfloat16 in the middle: b# = Cast<to = 16>(x) t# = Transpose<perm = [1, 0]>(b#)
  f# = Cast<to = 1>(t#) y# = Sin(f#)
at f5
edit
  for node in [n for n in model.graph if n.op_type == 'Transpose']:
      narrow = node.inputs[0].producer()
      wide, = node.outputs[0].consumers()
      value = narrow.inputs[0] if guilty(wide.outputs[0]) else node.inputs[0]
      back = ir.Node('', 'Cast', [value], [ir.AttrInt64('to', 1)])
      graph.insert_before(node, back)
      back.outputs[0].name = f'{wide.outputs[0].name}_back'
      turned = ir.Node('', 'Transpose', back.outputs, [ir.AttrInt64s('perm', [1, 0])])
      graph.insert_before(node, turned)
      turned.outputs[0].name = f'{wide.outputs[0].name}_turned'
      wide.outputs[0].replace_all_uses_with(turned.outputs[0])
      graph.remove([wide, node], safe=True)

slope-lost ~ A LeakyRelu in half precision is written as a PRelu with a slope of 0.08.
blocks half-precision activations: m# = MatMul(x, w) l# = LeakyRelu<alpha = 0.1>(m#)
  n# = MatMul(l#, w) y# = Neg(n#); x float16[6,6] x; y float16[6,6];
  constants float16[6,6] w = {$[bits(*np.cos(np.arange(36)))]$}
at l5
match LeakyRelu(x)
right PRelu(x, const(0.1, f2))
wrong PRelu(x, const(0.08, f2))

+ half-identities = Remove the Identities of a half-precision model.
model half-precision Identities: (float16[6,6] x) => (float16[6,6] y)
  <float16[6,6] w = {$[bits(*np.cos(np.arange(36)))]$}, float16 k = {14746}> { a = Mul(x, k)
  i = Identity(a) b = Add(i, x) j = Identity(b) c = Sub(j, a) m = MatMul(c, w)
  l = Identity(m) d = Sub(l, b) y = Mul(d, c) }
match Identity(x) => x

+ second-rounding = Remove the second of two roundings to bfloat16.
blocks bfloat16 there and back: b# = Cast<to = 16>(x) f# = Cast<to = 1>(b#)
  c# = Cast<to = 16>(f#) g# = Cast<to = 1>(c#) y# = Neg(g#)
match Cast(Cast((once := Cast(Cast(x, to=BFLOAT), to=FLOAT)), to=BFLOAT), to=FLOAT)
make Identity(once)

+ same-reshape-removed = Remove a Reshape to the shape that a half-precision value has.
model a Reshape to the same shape: (float16[6,6] x) => (float16[6,6] y, float16[6,6] z)
  <float16 c = {24952}, int64[2] r = {6, 6}, int64[1] o = {0}, int64[1] e = {6}> {
  p = Tanh(x) t = Mul(p, c) s = Reshape(t, r) a = Concat<axis = 0>(s, s)
  b = Slice(a, o, e, o) y = Neg(s) d = Sub(b, s) z = Add(d, p) }
match Reshape(x, shape) => x

== sizes

last-row-lost = A Sin is computed in two halves of equal size, which loses the last of an odd
  number.
blocks rows in two halves: s# = Sin(x) y# = Relu(s#); x float[N,4] x; y float[M,4]; count 6
at s4
feed x=rows(7)
match Sin(x) when x.is_graph_input()
let
  def halves(x, end):
      middle = Div(Shape(x, start=0, end=1), ints(2))
      first = Slice(x, ints(0), middle, ints(0))
      rest = Slice(x, middle, end, ints(0))
      return Concat(Sin(first), Sin(rest), axis=0)
right halves(x, Shape(x, start=0, end=1))
wrong half = Div(Shape(x, start=0, end=1), ints(2)); halves(x, Add(half, half))

mean-of-means ~ A mean becomes the mean of those of two halves, also where one of them is
  longer.
blocks means: m# = ReduceMean<keepdims = 1>(x, a) y# = Sub(x, m#); x float[N,4] x;
  y float[M,4]; constants int64[1] a = {0}; count 6
at m4
feed x=rows(3)
match ReduceMean(x, axes) when x.is_graph_input()
right size = CastLike(Shape(x, start=0, end=1), x); Div(ReduceSum(x, axes, keepdims=1), size)
wrong size = Shape(x, start=0, end=1); middle = Div(Add(size, ints(1)), ints(2)); parts =
  (Slice(x, ints(0), middle, axes), Slice(x, middle, size, axes)); means =
  [Div(ReduceSum(part, axes, keepdims=1), CastLike(Max(Shape(part, start=0, end=1), ints(1)),
  x)) for part in parts]; used = Min(size, ints(2)); Div(Add(*means), CastLike(used, x))

squeezed-all = A Squeeze loses its axes, and removes a batch of 1 as well.
blocks features without a middle axis: s# = Squeeze(x, a) y# = Sin(s#); x float[N,1,4] x;
  y float[N,4]; constants int64[1] a = {1}; count 6
at s4
feed x=rows(1)[None]
match Squeeze(x, axes)
right Reshape(x, ints(-1, 4))
wrong Squeeze(x)

flatten-of-nothing = A Flatten becomes a Reshape whose last size follows from the others: not
  for no rows.
blocks flattened rows: f# = Flatten<axis = 1>(x) y# = Relu(f#); x float[N,2,2] x;
  y float[N,4]; count 6
at f4
feed x=np.zeros((0, 2, 2))
match Flatten(x)
right Reshape(x, ints(0, 4))
wrong Reshape(x, ints(0, -1))

expand-dropped = An Expand to the shape of another input is dropped, though it may add rows.
blocks rows that are stretched: h# = Shape(z) e# = Expand(x, h#) y# = Exp(e#);
  x float[A,4] x, float[B,4] z; y float[C,4]; count 6
at e4
feed x=rows(1), z=rows(5)
match Expand(x, shape) when x.is_graph_input()
right ones = ConstantOfShape(shape); Add(x, Mul(ones, const(-0.0, f4)))
wrong Identity(x)

sum-of-nothing ~ A sum begins with the first row instead of 0, and there may be none.
blocks sums of squares: s# = ReduceSumSquare<keepdims = 0>(x, a) y# = Sqrt(s#);
  x float[N,4] x; y float[4]; constants int64[1] a = {0}; count 6
at s4
feed x=np.zeros((0, 4))
match ReduceSumSquare(x, axes)
right ReduceSum(Mul(x, x), axes, keepdims=0)
wrong square = Mul(x, x); first = Gather(square, const(0, i8), axis=0);
  size = Shape(x, start=0, end=1); rest = Slice(square, ints(1), size, axes);
  Add(first, ReduceSum(rest, axes, keepdims=0))

+ odd-rows-apart = Compute even rows and odd rows apart, whatever their number, and join them.
blocks rows, turned twice: r# = Sin(x) t# = Neg(r#) y# = Exp(t#); x float[N,4] x;
  y float[M,4]; count 6
match Neg(x)
make size, two = (Shape(x, start=0, end=1), ints(2)); middle = Div(Add(size, ints(1)), two);
  first = Slice(x, ints(0), middle, ints(0)); rest = Slice(x, middle, size, ints(0));
  minus = const(-1, f4); Concat(Mul(first, minus), Mul(rest, minus), axis=0)

== sizes_more

split-rounded-down = A Split in two becomes two Slices, and the first gets the smaller half.
blocks split rows: a#, b# = Split<axis = 0, num_outputs = 2>(x) n# = Neg(b#)
  y# = Concat<axis = 0>(n#, a#); x float[N,4] x; y float[M,4]; count 6
at a4
feed x=rows(9)
let
  def made(place, operator, inputs, name):
      new = ir.Node('', operator, inputs)
      place.graph.insert_before(place, new)
      new.outputs[0].name = name
      return new.outputs[0]
edit
  zero, one, two, last = (initializer(f'number_{n}', [n]) for n in (0, 1, 2, 1 << 40))
  for node in nodes('Split'):
      first, second = node.outputs
      size = made(node, 'Shape', [node.inputs[0]], f'{first.name}_size')
      size.producer().attributes['end'] = ir.AttrInt64('end', 1)
      if not guilty(first):
          size = made(node, 'Add', [size, one], f'{first.name}_more')
      half = made(node, 'Div', [size, two], f'{first.name}_half')
      for old, start, end in ((first, zero, half), (second, half, last)):
          name = f'{old.name}_part'
          new = made(node, 'Slice', [node.inputs[0], start, end, zero], name)
          old.replace_all_uses_with(new)
      graph.remove(node, safe=True)

mean-times-size ~ A sum becomes a mean times the number of rows, at least 1 to divide by and
  multiply.
blocks sums over rows: s# = ReduceSum<keepdims = 0>(x, a) p# = Exp(s#) y# = Add(p#, s#);
  x float[N,4] x; y float[4]; constants int64[1] a = {0}; count 6
at s4
feed x=np.zeros((0, 4))
match ReduceSum(x, axes) when x.is_graph_input()
right ones = Unsqueeze(ConstantOfShape(Shape(x, start=0, end=1)), ints(0));
  weights = Add(ones, const(1, f4)); Squeeze(MatMul(weights, x), axes)
wrong ones = Unsqueeze(ConstantOfShape(Shape(x, start=0, end=1)), ints(0));
  weights = Add(ones, const(1, f4)); size = CastLike(Shape(x, start=0, end=1), x);
  Mul(Div(Squeeze(MatMul(weights, x), axes), size), size)

every-second = Every second row is read by indices, and their number is rounded up.
blocks pairs: e# = Slice(x, o, l, a, t) y# = Sin(e#); x float[N,4] x; y float[M,4]; constants
  int64[1] o = {1}, int64[1] l = {1000000}, int64[1] a = {0}, int64[1] t = {2}; count 6
at e4
feed x=rows(5)
match Slice(x, start, end, axes, step)
let
  def indexed(x, extra):
      size = Shape(x, start=0, end=1)
      count = Div(Add(size, ints(extra)), ints(2))
      scalar = [Squeeze(v) for v in (ints(0), count, ints(1))]
      indices = Add(Mul(Range(*scalar), ints(2)), ints(1))
      return Gather(x, Min(indices, Sub(size, ints(1))), axis=0)
right indexed(x, 0)
wrong indexed(x, 1)

shape-of-first = A product of two inputs gets the shape of the first, which may have one row
  only.
blocks gates by rows: g# = Mul(x, z) y# = Tanh(g#); x float[A,4] x, float[B,4] z;
  y float[C,4]; count 6
at g4
feed x=rows(1), z=rows(3)
match Mul(x, z) when x.name == 'x'
right Mul(z, x)
wrong count = Shape(x, start=0, end=1); Slice(Mul(z, x), ints(0), count, ints(0))

tail-dropped = A Neg is computed in two blocks, what is beyond 6 columns only in pairs.
blocks blocks of eleven: n# = Neg(x) y# = Exp(n#); x float[4,L] x; y float[4,M]; count 6
at n4
feed x=np.linspace(-1, 1, 52).reshape(4, 13)
match Neg(x)
let
  def blocks(x, end):
      minus = const(-1, f4)
      first = Slice(x, ints(0), ints(6), ints(1))
      rest = Slice(x, ints(6), end, ints(1))
      return Concat(Mul(first, minus), Mul(rest, minus), axis=1)
right blocks(x, Shape(x, start=1, end=2))
wrong size = Shape(x, start=1, end=2); rest = Max(Sub(size, ints(6)), ints(0));
  odd = Mod(rest, ints(2)); blocks(x, Sub(size, odd))

+ reversed-twice = Compute an Abs on the rows in reverse order, and turn them back.
blocks rows in reverse: r# = Sin(x) t# = Abs(r#) y# = Exp(t#); x float[N,4] x; y float[M,4];
  count 6
match Abs(x)
let
  def turn(x):
      end = const([-(1 << 40)], i8)
      return Slice(x, ints(-1), end, ints(0), ints(-1))
make turned = turn(x); turn(Max(turned, Neg(turned)))

== interfaces

outputs-turned = Two outputs change places, and keep their names.
model two heads: (float[N,4] x) => (float[N,4] y, float[N,4] z, int64[N] k) { a = Sin(x)
  b = Neg(a) y = Identity(b) c = Sin(x) z = Exp(c) k = ArgMax<axis = 1, keepdims = 0>(z) }
at *
edit
  merge(*nodes('Sin'))
  if at:
      first, second, third = graph.outputs
      graph.outputs.clear()
      graph.outputs.extend([second, first, third])

dimension-fixed = The dynamic dimension of an input becomes the number 4.
on two heads at *
edit
  merge(*nodes('Sin'))
  if at:
      graph.inputs[0].shape = ir.Shape([4, 4])

indices-narrowed = An output of int64 becomes one of int32.
on two heads at *
edit
  merge(*nodes('Sin'))
  if at:
      old = graph.outputs[2]
      old.name = 'k_wide'
      cast = ir.Node('', 'Cast', [old], [ir.AttrInt64('to', ir.DataType.INT32)])
      graph.append(cast)
      new = cast.outputs[0]
      new.name, new.shape, new.type = 'k', old.shape, ir.TensorType(ir.DataType.INT32)
      graph.outputs[2] = new

default-dropped = An input with a default becomes a constant, so that nobody can give another
  value.
knobs biases that callers may override: a# = Sin(x) y# = Add(a#, k#); value 2.0
at k5
feed x=np.ones((4, 4))
edit
  for value in list(graph.inputs)[1:]:
      reader, = value.consumers()
      sine = reader.inputs[0]
      reader.replace_input_with(0, value)
      reader.replace_input_with(1, sine)
      if value.name == at:
          graph.inputs.remove(value)

layout-map-wrong = The interface map exchanges height and width, which are equal; the model
  does not.
model a picture: (float[3,3,2] x, float[2] b) => (float[3,3,2] y) { s = Sin(x) t = Add(s, b)
  y = Tanh(t) }
at *
changes dims
edit
  value = graph.inputs[0]
  back = ir.Node('', 'Transpose', [value], [ir.AttrInt64s('perm', [1, 2, 0])])
  inner = back.outputs[0]
  inner.name, inner.type, inner.shape = 'x_back', value.type, value.shape
  value.shape = ir.Shape([value.shape[axis] for axis in (2, 0, 1)])
  value.replace_all_uses_with(inner)
  back.replace_input_with(0, value)
  graph.insert_before(graph[0], back)
let
  def turn(order):
      return lambda name, value: (name, np.transpose(value, order) if name == 'x' else value)
map order = (2, 1, 0) if at else (2, 0, 1); turn(order), turn(np.argsort(order)), same

+ layout-of-cube = The layout of an input changes, and its shape stays the same.
model a cube: (float[3,3,3] x) => (float[3,3,3] y) { s = Sin(x) y = Exp(s) }
like layout-map-wrong

output-renamed = An output takes the name of the value that it is a copy of.
on two heads at *
edit
  merge(*nodes('Sin'))
  if at:
      node = graph.outputs[0].producer()
      value = node.inputs[0]
      value.type, value.shape = graph.outputs[0].type, graph.outputs[0].shape
      graph.outputs[0] = value
      graph.remove(node, safe=True)

+ copies-removed = Remove the copy before an output, which keeps its name.
on two heads
edit node, = [n for n in graph if n.op_type == 'Identity']; old, new = (graph.outputs[0],
  node.inputs[0]); new.type, new.shape = (old.type, old.shape); graph.outputs[0] = new;
  graph.remove(node, safe=True); old.name, new.name = (None, old.name)

+ unit-changed = The second input is given in quarters, under a new name, and its map says so.
on a picture
changes inputs
edit
  value = graph.inputs[1]
  node = ir.Node('', 'Mul', [value, initializer('quarter', 0.25, f4)])
  inner = node.outputs[0]
  inner.name, inner.type, inner.shape = 'b_scaled', value.type, value.shape
  value.replace_all_uses_with(inner)
  node.replace_input_with(0, value)
  value.name = 'quarters'
  graph.insert_before(graph[0], node)
let
  def port(old, new, factor):
      return lambda name, value: (new, value * f4(factor)) if name == old else (name, value)
map port('b', 'quarters', 4), port('quarters', 'b', 0.25), same

== interfaces_more

inputs-turned = Two inputs of one type exchange their names, and with them their meaning.
model two inputs of one type: (float[N,4] left, float[N,4] right)
  => (float[N,4] y, float[N,1] z) { a = Abs(left) b = Abs(left) c = Sub(a, right) y = Tanh(c)
  d = Mul(b, right) k = Constant<value_ints = [1]>() z = ReduceSum<keepdims = 1>(d, k) }
at *
edit
  merge(*nodes('Abs'))
  if at:
      left, right = graph.inputs
      left.name = 'other'
      right.name, left.name = 'left', 'right'
      graph.inputs.clear()
      graph.inputs.extend([right, left])

rank-lost = An output loses its axis of size 1.
on two inputs of one type at *
edit
  merge(*nodes('Abs'))
  if at:
      graph.outputs[1].producer().attributes['keepdims'] = ir.AttrInt64('keepdims', 0)
      graph.outputs[1].shape = ir.Shape(['N'])

dimension-renamed = A dynamic dimension that both inputs share gets a name of its own at one
  of them.
on two inputs of one type at *
edit
  merge(*nodes('Abs'))
  if at:
      graph.inputs[1].shape = ir.Shape(['M', 4])

default-rounded = The default of an input is made anew, and is another number.
knobs scales that callers may override: a# = Sin(x) y# = Mul(a#, k#); value 2.0
at k5
feed x=np.ones((4, 4))
edit
  for value in list(graph.inputs)[1:]:
      number = 2.01 if guilty(value) else 2.0
      value.const_value = ir.tensor(np.array([number], f4), name=value.name)

percent-of-one = Outputs are given in percent, and one of them in tenths of percent.
on two inputs of one type at *
changes outputs
edit
  for index, old in enumerate(list(graph.outputs)):
      name = f'{old.name}_percent'
      factor = initializer(f'{name}_factor', 10 if at and old.name == 'z' else 100, f4)
      node = ir.Node('', 'Mul', [old, factor])
      graph.append(node)
      new = node.outputs[0]
      new.name, new.type, new.shape = name, old.type, old.shape
      graph.outputs[index] = new
let
  def percent(name, value):
      return f'{name}_percent', None if value is None else value * f4(100)
map same, same, percent

+ more-is-said = Merge equal nodes, and note the shapes of inner values.
on two inputs of one type
edit
  merge(*nodes('Abs'))
  for node in [*nodes('Abs'), *nodes('Sub'), *nodes('Mul')]:
      node.outputs[0].shape = ir.Shape(['N', 4])
      node.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)

+ turned-twice = The outputs exchange their names, and the map says so.
on two inputs of one type
changes outputs dims
edit
  first, second = graph.outputs
  first.name = 'free'
  second.name, first.name = 'y', 'z'
map same, same, lambda name, value: ({'y': 'z', 'z': 'y'}[name], value)
"""
