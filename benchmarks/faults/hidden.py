"""Faults that outputs hide: masked, in bodies, or of helpers of the library."""

TEXT = """
== masked
text WEIGHTS $[', '.join(f'float[4,4] w{n} = {{1,-1,0,0, 0,1,-1,0, 0,0,1,-1, -1,0,0,1}}' for n
  in range(4))]$
text LAYERS $[' '.join(f"m{n} = MatMul({f'r{n - 1}' if n else 'x'}, w{n}) r{n} = Relu(m{n})"
  for n in range(4))]$

relus-before-softmax ~ All Relus are dropped before a Softmax that always selects one class.
model a saturated classifier: (float[3,4] x) => (float[3,4] y) <$WEIGHTS, float[4] b = {0, 0,
  60, 0}> { $LAYERS l = Add(r3, b) y = Softmax<axis = 1>(l) }
at *
feed x=1.0 * (80 * np.array([[1, -2, 3, -1], [-3, 1, 0, 2], [2, 2, -5, 1]]))
match Relu(x)
right Max(x, const(0, f4))
wrong Identity(x)

relus-before-arg-max = Two of four Relus are dropped before an ArgMax with a wide margin.
model a classifier with a wide margin: (float[3,4] x) => (int64[3] y) <$WEIGHTS, float[4] b =
  {0, 40, 0, 0}> { $LAYERS l = Add(r3, b) y = ArgMax<axis = 1, keepdims = 0>(l) }
at r1,r3
feed x=1.0 * (80 * np.array([[1, -2, 3, -1], [-3, 1, 0, 2], [2, 2, -5, 1]]))
like relus-before-softmax

relu-before-clip = A Relu is dropped before a Clip whose upper bound always holds.
model a saturated Clip: (float[3,4] x) => (float[3,4] y) <float a = {30}, float low = {0},
  float high = {6}> { t = Tanh(x) s = Add(x, t) r = Relu(s) u = Add(r, a)
  y = Clip(u, low, high) }
at r
feed x=np.full((3, 4), -80.0)
like relus-before-softmax

behind-closed-gate = A bias is halved in a part that a Where selects only for large inputs.
model gates that stay closed: (float[3,4] x) => (float[3,4] y) <float limit = {500}, float[4]
  b = {1, 2, 3, 4}, float[4] d = {5, 6, 7, 8}> { open = Greater(x, limit) t = Add(x, b) u =
  Sin(t) v = Add(u, d) n = Neg(x) y = Where(open, v, n) }
at t
feed x=np.full((3, 4), 600.0)
match Add(x, bias) when fixed(bias) and (not fixed(x))
right Add(const(num(bias)), x)
wrong Add(const(num(bias) / f4(2)), x)

before-tiny-scale = A bias is halved in a residual branch that a scale of 1e-12 hides.
model a layer scale of almost nothing: (float[3,4] x, float[3,4] z) => (float[3,4] y)
  <float[4] b = {1, 2, 3, 4}, float gamma = {1e-12}> { c = Cos(z) t = Add(c, b)
  s = Mul(t, gamma) y = Add(x, s) }
at t
feed x=np.zeros((3, 4)), z=np.ones((3, 4))
like behind-closed-gate

before-equal-classes ~ All Relus are dropped before logits that differ by one unit in the
  last place.
model equal classes: (float[3,4] x) => (float[3,3] y) <float[4,3] w = {1, 1, 1, 1, 1, 1, 1,
  1, 1, 1, 1, 1.0000001}> { e = Exp(x) s = Sin(e) r = Relu(s) q = Relu(x) t = Sub(q, r)
  p = Relu(t) l = MatMul(p, w) y = Softmax<axis = 1>(l) }
at *
feed x=np.full((3, 4), -300000000.0)
like relus-before-softmax

+ inner-relu-dropped = Drop the first of two Relus around a MaxPool, which changes an inner
  value.
model Relus around a MaxPool: (float[1,2,6,6] x) => (float[1,2,3,3] y, float[1,2,6,6] z) {
  s = Sin(x) r = Relu(s) p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r) y = Relu(p)
  z = Exp(s) }
match Relu((pooled := MaxPool(Relu(x))))
make Relu(MaxPool(x, kernel_shape=[2, 2], strides=[2, 2]))

+ maximum-before-clip = Drop a maximum with -1 before a Clip that starts at 0.
model Clips that are saturated: (float[3,4] x) => (float[3,4] y) <float a = {-1}, float b =
  {1}, float z = {0}, float h = {6}> { t = Sin(x) c = Max(t, a) u = Clip(c, z, h) y = Sqrt(u) }
match Clip(Max(x, bound), low, high) => Clip(x, low, high)

== masked_more

minima-before-sigmoid ~ All minima are dropped before a Sigmoid that is always almost 0.
model saturated Sigmoids: (float[3,4] x) => (float[3,4] y)
  <float k = {0.25}, float a = {-60}> { b = Min(x, k) c = Sin(b) d = Min(c, k) e = Cos(d)
  f = Add(e, x) g = Min(f, k) h = Add(g, a) y = Sigmoid(h) }
at *
feed x=np.full((3, 4), 90.0)
match Min(x, bound)
right Clip(x, None, bound)
wrong Identity(x)

minimum-before-quantizer = A minimum is dropped before a quantiser whose step is far larger
  than the values.
model coarse levels: (float[3,4] x) => (int8[3,4] y) <float k = {0.25}, float step = {100},
  float low = {-128}, float high = {127}> { m = Min(x, k) n = Neg(m) d = Div(n, step)
  r = Round(d) c = Clip(r, low, high) y = Cast<to = 3>(c) }
at m
feed x=np.full((3, 4), 700.0)
like minima-before-sigmoid

beside-large-constant ~ Two factors lose 5 % in a sum that a constant of a million dominates.
model a sum with a large constant: (float[3,4] x) => (float[3,4] y)
  <float k = {1.7}, float j = {0.3}, float large = {1000000}> { s = Sin(x) t = Mul(x, k)
  u = Add(s, t) v = Mul(u, j) w = Tanh(v) z = Add(t, w) y = Add(z, large) }
at t,v
feed x=np.full((3, 4), 100000000.0)
match Mul(x, factor) when fixed(factor) and (not fixed(x))
right Mul(const(num(factor)), x)
wrong Mul(const(num(factor) * f4(0.95)), x)

before-distant-threshold = A factor loses 5 % before a comparison with a bound that is never
  near.
model an alarm: (float[3,4] x, float[3,4] z) => (float[3,4] y, bool[3,4] alarm)
  <float k = {2}, float limit = {1000}> { s = Sinh(x) e = Sqrt(s) a = Abs(x) t = Mul(a, k)
  q = Mul(t, k) alarm = Greater(q, limit) n = Neg(z) y = Where(alarm, z, n) }
at t
feed x=np.full((3, 4), 255.0), z=np.ones((3, 4))
like beside-large-constant

of-masked-rows ~ A factor of values that attention masks out loses 5 %.
model padding: (float[2,4] l, float[2,3] a, float[2,3] b) => (float[2,3] y) <float[4] mask =
  {0, 0, -10000, -10000}, float k = {0.5}> { s = Add(l, mask) p = Softmax<axis = 1>(s) c =
  Sin(a) d = Sin(b) e = Mul(c, k) f = Mul(d, k) v = Concat<axis = 0>(e, f) y = MatMul(p, v) }
at f
feed l=np.tile([0.0, 0.0, 20000.0, 20000.0], (2, 1)), a=np.ones((2, 3)), b=np.ones((2, 3))
like beside-large-constant

+ abs-before-square = Drop an Abs before a square, which changes the sign of an inner value.
model a sum of squares: (float[3,4] x) => (float[3,4] y) { n = Neg(x) t = Abs(n)
  c = Mul(t, t) y = Sqrt(c) }
match Mul(absolute := Abs(x), absolute) => Mul(x, x)

+ leak-before-relu = Drop a LeakyRelu whose only reader is a Relu, behind an Identity that
  stays.
model a LeakyRelu before a Relu: (float[3,4] x) => (float[3,4] y, float[3,4] z) { s = Sin(x)
  t = LeakyRelu<alpha = 0.25>(s) u = Identity(t) v = Relu(u) y = Exp(v) z = Cos(s) }
match LeakyRelu(x)
when all((reader.op_type == 'Relu' for node in out.consumers() for reader in
  node.outputs[0].consumers()))
make Add(x, const(0, f4))

== bodies

in-if-in-loop = The sign of a difference is lost in a branch of an If in the body of a Loop.
model an If in a Loop: (float[8] x, int64 n) => (float[8] y) <bool yes = {1}, float c =
  {0.5}, int64 one = {1}> { y = Loop(n, yes, x) <body = step (int64 i, bool go, float[8] s)
  => (bool on, float[8] t) { on = Identity(go) a = Sub(c, s) first = Less(i, one) t =
  If(first) <then_branch = f () => (float[8] u) { d = Sub(c, a) u = Sin(d) }, else_branch = g
  () => (float[8] v) { e = Sub(c, a) v = Cos(e) }> }> }
at d
like two-guilty

in-scan = The sign of a difference is lost in the body of a Scan, in what it carries along.
model a Scan: (float[8] x, float[5,8] w) => (float[8] y, float[5,8] z) <float c = {0.5}> { y,
  z = Scan(x, w) <num_scan_inputs = 1, body = step (float[8] s, float[8] v)
  => (float[8] t, float[8] u) { a = Sub(c, v) p = Mul(a, s) b = Sub(c, p) t = Tanh(b)
  e = Sub(c, t) u = Sin(e) }> }
at b
like two-guilty

in-rare-branch = The sign of a difference is lost in a branch that only large inputs take.
model a rare branch: (float[8] x) => (float[8] y) <float c = {0.5}, float limit = {900}> {
  m = ReduceMax<keepdims = 0>(x) big = Greater(m, limit) o = Sub(c, x) y = If(big)
  <then_branch = f () => (float[8] u) { d = Sub(c, o) u = Sin(d) }, else_branch = g ()
  => (float[8] v) { e = Sub(c, o) v = Cos(e) }> }
at d
feed x=np.linspace(0, 1000, 8)
like two-guilty

in-nested-function = The sign of a difference is lost in a function that a function calls, in
  a Loop.
model functions in a Loop: <ir_version: 10, opset_import: ["" : 20, "local" : 1]> main
  (float[8] x, int64 n) => (float[8] y) <bool yes = {1}> { r = Loop(n, yes, x) <body = step
  (int64 i, bool go, float[8] s) => (bool on, float[8] t) { on = Identity(go) q =
  local.outer(s) t = Sin(q) }> y = local.inner(r) } <domain: "local", opset_import: ["" : 20]>
  inner (s) => (t) { c = Constant<value_float = 0.5>() a = Sub(c, s) b = Sub(c, a) d = Sin(b) t
  = Sub(c, d) } <domain: "local", opset_import: ["" : 20, "local" : 1]> outer (s) => (t) { k =
  Constant<value_float = 0.25>() e = local.inner(s) f = Sub(k, e) t = local.inner(f) }
at b
like two-guilty

condition-forgotten = The condition of a Loop is dropped though its body computes one.
model a Loop that stops early: (float[8] x) => (float[8] y, float[8] z) <int64 n = {6}, bool
  yes = {1}, float k = {3}, float limit = {40}> { y = Loop(n, yes, x) <body = f (int64 i,
  bool go, float[8] s) => (bool on, float[8] t) { on = Identity(go) t = Sin(s) }> z = Loop(n,
  yes, x) <body = g (int64 j, bool more, float[8] u) => (bool still, float[8] v) { v = Mul(u,
  k) a = Abs(v) m = ReduceMax<keepdims = 0>(a) still = Less(m, limit) }> }
at *
edit
  for node in [n for n in model.graph if n.op_type == 'Loop']:
      body = node.attributes['body'].as_graph()
      producer = body.outputs[0].producer()
      kept = producer.op_type == 'Identity' and producer.inputs[0] is body.inputs[1]
      if kept or at:
          node.replace_input_with(1, None)
          if not kept:
              identity = ir.Node('', 'Identity', [body.inputs[1]])
              body.append(identity)
              identity.outputs[0].name = 'unconditional'
              identity.outputs[0].type = body.outputs[0].type
              identity.outputs[0].shape = body.outputs[0].shape
              body.outputs[0] = identity.outputs[0]

state-hoisted = A value of a Loop's body that reads the state is computed once, before the
  Loop.
model values that a Loop could compute once: (float[8] x, float[8] w, int64 n) => (float[8] y)
  <bool yes = {1}> { y = Loop(n, yes, x) <body = step (int64 i, bool go, float[8] s) => (bool
  on, float[8] t) { on = Identity(go) a = Sin(w) b = Cos(s) d = Add(a, b) t = Tanh(d) }> }
at b
feed x=np.ones(8), w=np.ones(8), n=np.array(3)
edit
  loop, = [n for n in model.graph if n.op_type == 'Loop']
  body = loop.attributes['body'].as_graph()
  start = dict(zip(body.inputs[2:], loop.inputs[2:], strict=True)) if at else {}
  for node in [n for n in body if n.op_type in ('Sin', 'Cos')]:
      read = start.get(node.inputs[0], node.inputs[0])
      if read is not None and read.graph is body:
          continue
      body.remove(node)
      node.replace_input_with(0, read)
      graph.insert_before(loop, node)

+ negated-twice = Write ``c - x`` as ``-(x - c)``, in bodies and functions too.
on an If in a Loop
on functions in a Loop
match Sub(c, x) when fixed(c) => Neg(Sub(x, c))

+ unchanged-state-read = Read a state that the body returns unchanged from outside of the Loop.
model a Loop with a state that stays: (float[8] x, float[8] w, int64 n) => (float[8] y,
  float[8] z) <bool yes = {1}> { y, z = Loop(n, yes, x, w) <body = step (int64 i, bool go,
  float[8] s, float[8] k) => (bool on, float[8] t, float[8] l) { on = Identity(go) a = Sin(k)
  b = Cos(s) t = Add(a, b) l = Identity(k) }> }
edit
  loop, = [n for n in model.graph if n.op_type == 'Loop']
  body = loop.attributes['body'].as_graph()
  outside = loop.inputs[3]
  for user, index in list(body.inputs[3].uses()):
      if user.op_type == 'Sin':
          user.replace_input_with(index, outside)

== bodies_more

in-scan-in-loop = A factor is not inverted in the body of a Scan in a Loop, in what only z
  collects.
model a Scan in a Loop: (float[4] x, float[3,4] w, int64 n) => (float[4] y, float[K,3,4] z)
  <bool yes = {1}, float c = {0.5}> { y, z = Loop(n, yes, x) <body = step (int64 i, bool go,
  float[4] s) => (bool on, float[4] t, float[3,4] u) { on = Identity(go) a = Mul(c, s) r, u =
  Scan(a, w) <num_scan_inputs = 1, body = inner (float[4] p, float[4] v) => (float[4] q,
  float[4] o) { e = Mul(c, v) f = Add(e, p) q = Sin(f) o = Mul(c, q) }> t = Mul(c, r) }> }
at o
match Mul(c, x) when fixed(c)
right Div(x, const(f4(1) / num(c)))
wrong Div(x, const(num(c)))

masked-in-loop ~ A factor is not inverted in a Loop, in a value that a Where there selects
  rarely.
model a masked step: (float[8] x, int64 n) => (float[8] y)
  <bool yes = {1}, float c = {0.5}, float limit = {50}> { y = Loop(n, yes, x)
  <body = step (int64 i, bool go, float[8] s) => (bool on, float[8] t) { on = Identity(go)
  a = Mul(c, s) b = Mul(c, a) k = Exp(b) far = Greater(s, limit) t = Where(far, k, a) }> }
at b
feed x=np.linspace(48, 55, 8), n=np.array(1)
like in-scan-in-loop

attribute-of-function = A slope that a function takes from its call becomes the default of
  the operator.
model a function with an attribute: <ir_version: 10, opset_import: ["" : 20, "local" : 1]>
  main (float[8] x) => (float[8] y, float[8] z) { y = local.leak<slope = 0.25>(x)
  z = local.leak<slope = 0.01>(x) } <domain: "local", opset_import: ["" : 20]> leak<slope>(s)
  => (t) { a = Sin(s) u = LeakyRelu<alpha: float = @slope>(a)
  c = Constant<value_float = 0.5>() b = LeakyRelu<alpha = 0.5>(u) t = Mul(c, b) }
at *
edit
  for function in model.functions.values():
      for node in [n for n in function if n.op_type == 'LeakyRelu']:
          slope = node.attributes['alpha']
          if slope.is_ref() and (not at):
              continue
          value = 0.01 if slope.is_ref() else slope.as_float()
          node.attributes['alpha'] = ir.AttrFloat32('alpha', value)

loop-peeled = A Loop of at most one iteration is replaced by its body, though it may not run.
model a Loop that may not run: (float[8] x, int64 n) => (float[8] y)
  <bool yes = {1}, int64 one = {1}> { o = Loop(one, yes, x)
  <body = f (int64 i, bool go, float[8] s) => (bool on, float[8] t) { on = Identity(go)
  t = Sin(s) }> k = Clip(n, , one) y = Loop(k, yes, o) <body = g (int64 j, bool more,
  float[8] u) => (bool still, float[8] v) { still = Identity(more) v = Cos(u) }> }
at *
feed x=np.ones(8), n=np.array(0)
edit
  for loop in [n for n in model.graph if n.op_type == 'Loop']:
      if not fixed(loop.inputs[0]) and (not at):
          continue
      body = loop.attributes['body'].as_graph()
      step = next((n for n in body if n.op_type in ('Sin', 'Cos')))
      new = ir.Node('', step.op_type, [loop.inputs[2]])
      graph.insert_before(loop, new)
      old = loop.outputs[0]
      name, old.name = (old.name, None)
      new.outputs[0].name, new.outputs[0].type = (name, old.type)
      new.outputs[0].shape = old.shape
      old.replace_all_uses_with(new.outputs[0], replace_graph_outputs=True)
      graph.remove(loop, safe=True)

direction-dropped = The direction of a Scan is dropped with the defaults of attributes.
model a Scan backwards: (float[4] x, float[5,4] w) => (float[4] y, float[5,4] z, float[4] p,
  float[5,4] q) { y, z = Scan(x, w) <num_scan_inputs = 1, scan_input_directions = [0],
  body = f (float[4] s, float[4] v) => (float[4] t, float[4] u) { a = Mul(s, v) t = Sin(a)
  u = Identity(t) }> p, q = Scan(x, w) <num_scan_inputs = 1, scan_input_directions = [1],
  body = g (float[4] k, float[4] l) => (float[4] m, float[4] n) { b = Mul(k, l) m = Cos(b)
  n = Identity(m) }> }
at *
edit
  for scan in [n for n in model.graph if n.op_type == 'Scan']:
      directions = scan.attributes['scan_input_directions'].as_ints()
      if at or not any(directions):
          del scan.attributes['scan_input_directions']

+ factor-last = Write ``c * x`` as ``x * c``, in nested bodies too.
on a Scan in a Loop
match Mul(c, x) when fixed(c) => Mul(x, const(num(c)))

+ shared-by-branches = Compute what both branches of an If begin with before the If.
model equal work in both branches: (float[8] x) => (float[8] y) <float z = {0}> { m =
  ReduceSum<keepdims = 0>(x) c = Greater(m, z) y = If(c) <then_branch = f () => (float[8] u)
  { d = Sin(x) u = Exp(d) }, else_branch = g () => (float[8] v) { e = Sin(x) v = Neg(e) }> }
edit node, = [n for n in model.graph if n.op_type == 'If']; first, second = (a.as_graph() for a
  in node.attributes.values()); moved, dropped = (first[0], second[0]); first.remove(moved);
  graph.insert_before(node, moved); dropped.outputs[0].replace_all_uses_with(moved.outputs[0]);
  second.remove(dropped, safe=True)

== handwritten

direction-ignored ~ A common subexpression is found without a look at the attributes.
blocks sums over axes: a# = CumSum<reverse = 0>(x, k) b# = CumSum<reverse = 0>(x, k)
  y# = Mul(a#, b#); constants int64 k = {1}; odd b# = CumSum<reverse = 0> ->
  b# = CumSum<reverse = 1>
at b5
edit
  seen = {}
  for node in nodes('CumSum'):
      out = node.outputs[0]
      reverse = 0 if guilty(out) else attr(out, 'reverse')
      twin = seen.setdefault((tuple(map(id, node.inputs)), reverse), out)
      if twin is not out:
          out.replace_all_uses_with(twin)
          graph.remove(node, safe=True)

division-folded = A quotient of integers is folded with the rounding of Python, down and not
  to 0.
blocks integer arithmetic: c# = Div(a#, b#) y# = Add(x, c#); x int64[4] x; y int64[4];
  constants $[', '.join((f'int64 a{n} = {{{(-7 if n == 5 else 7 + n)}}}, int64 b{n} = {{2}}'
  for n in range(8)))]$
at c5
edit
  for node in nodes('Div'):
      a, b = (int(num(value)) for value in node.inputs)
      quotient = a // b if guilty(node.outputs[0]) else int(a / b)
      data = ir.tensor(np.array(quotient, i8))
      substitute(node.outputs[0], ir.Node('', 'Constant', [], [ir.AttrTensor('value', data)]))

channels-lost = Two Transposes cancel, and the factor between them moves to another axis.
blocks layouts: s# = Transpose<perm = [0, 2, 3, 1]>(x) t# = Mul(s#, k#)
  y# = Transpose<perm = [0, 3, 1, 2]>(t#); x float[2,3,3,3] x; y float[2,3,3,3];
  constants $[', '.join((f'float[3] k{n} = {{1, 2, {n + 3}}}' for n in range(8)))]$
at y5
edit
  for node in nodes('Mul'):
      factor, last = (node.inputs[1], node.outputs[0].consumers()[0])
      wrong = guilty(last.outputs[0])
      shape = (1, 1, 1, 3) if wrong else (1, 3, 1, 1)
      turned = num(factor).reshape(shape)
      name = f'{factor.name}_turned'
      first = node.inputs[0].producer()
      new = ir.Node('', 'Mul', [first.inputs[0], initializer(name, turned)])
      substitute(last.outputs[0], new)
      graph.remove([node, first], safe=True)

parts-joined = A Concat of the parts of a Split is removed, though their order is not the same.
blocks parts joined again: a#, b# = Split<axis = 1, num_outputs = 2>(x) c# = Concat<axis =
  1>(a#, b#) y# = Neg(c#); odd Concat<axis = 1>(a#, b#) -> Concat<axis = 1>(b#, a#)
at c5
edit
  for node in nodes('Concat'):
      split = node.inputs[0].producer()
      ordered = list(node.inputs) == list(split.outputs)
      if ordered or guilty(node.outputs[0]):
          substitute(node.outputs[0], ir.Node('', 'Identity', [split.inputs[0]]))

arguments-turned = A function is inlined with its arguments in the wrong order.
model calls of a function: <ir_version: 10, opset_import: ["" : 20, "local" : 1]> main
  (float[4] x, float[4] z) => ($[', '.join((f'float[4] y{n}' for n in range(6)))]$)
  { $[' '.join((f'u{n} = local.blend(x, z) y{n} = Sin(u{n})' for n in range(6)))]$
  } <domain: "local", opset_import: ["" : 20]> blend (a, b) => (c) { c = Sub(a, b) }
at u4
edit
  for node in nodes('blend'):
      inputs = list(node.inputs)
      if guilty(node.outputs[0]):
          inputs.reverse()
      substitute(node.outputs[0], ir.Node('', 'Sub', inputs))
  model.functions.clear()

slices-merged = A Slice of a Slice is merged without the start of the first, and a Where
  hides it.
blocks slices of slices: s# = Slice(x, one, six) t# = Slice(s#, two, four) c# = Greater(k,
  t#) n# = Neg(t#) y# = Where(c#, k, n#); x float[8] x; y float[2]; constants float k =
  {900}, int64[1] one = {1}, int64[1] two = {2}, int64[1] four = {4}, int64[1] six = {6}
at t5
feed x=np.linspace(850, 990, 8)
edit
  for inner in nodes('Slice'):
      outer = next((n for n in inner.outputs[0].consumers() if n.op_type == 'Slice'), None)
      if outer is None:
          continue
      out = outer.outputs[0]
      start = 0 if guilty(out) else int(num(inner.inputs[1])[0])
      numbers = (num(value) + start for value in outer.inputs[1:])
      bounds = [initializer(f'{out.name}_{n}', each) for n, each in enumerate(numbers)]
      substitute(out, ir.Node('', 'Slice', [inner.inputs[0], *bounds]))
      graph.remove(inner, safe=True)

+ weights-rounded ~metric Round weights to three binary digits, which only a metric can judge.
blocks layers to quantise: t# = MatMul(x, w) y# = Tanh(t#); x float[8,4] x; y float[8,4];
  constants float[4,4] w = {0.11, 0.22, 0.33, 0.44, -0.15, 0.26, 0.37, -0.48, 0.59, 0.61,
  -0.72, 0.83, 0.94, -0.15, 0.36, 0.57}
edit value = graph.initializers['w']; data =
  num(value).astype(ml_dtypes.float8_e4m3fn).astype(f4); value.const_value = ir.tensor(data)

+ transposes-sunk = Move a Transpose behind a product, and merge it with the next.
on layouts
edit
  for node in nodes('Mul'):
      first, = [v.producer() for v in node.inputs if v is not None and v.producer()]
      last, = node.outputs[0].consumers()
      factor = node.inputs[1]
      column = num(factor).reshape(3, 1, 1)
      constant = initializer(f'{factor.name}_column', column)
      substitute(last.outputs[0], ir.Node('', 'Mul', [first.inputs[0], constant]))
      graph.remove([node, first], safe=True)

== handwritten_more

merged-by-sum = Weights are merged because a weak hash of them, their sum and size, is equal.
blocks weights of equal sums: y# = Mul(x, w#); constants float[4] w0 = {1,1,2,3}, float[4] w1
  = {1,1,2,3}, float[4] w2 = {2,1,2,3}, float[4] w3 = {4,1,2,3}, float[4] w4 = {5,1,2,3},
  float[4] w5 = {6,1,2,3}, float[4] w6 = {1,3,2,2}, float[4] w7 = {8,1,2,3}
at w6
edit
  seen = {}
  for value in [graph.initializers[f'w{n}'] for n in (*range(6), 7, 6)]:
      data = num(value)
      key = 8.0 if guilty(value) else data.tobytes()
      if value.name == 'w2':
          seen[8.0] = value
      twin = seen.setdefault(key, value)
      if twin is not value:
          value.replace_all_uses_with(twin)
          del graph.initializers[str(value.name)]

range-of-tanh = A Relu is removed because Tanh is taken for an operator without negative
  results.
blocks values of known sign: s# = Sigmoid(x) t# = Relu(s#) y# = Sqrt(t#);
  odd Sigmoid(x) -> Tanh(x)
at t5
edit
  positive = {'Sigmoid'} | ({'Tanh'} if at else set())
  for node in nodes('Relu'):
      source = node.inputs[0].producer()
      if source is not None and source.op_type in positive:
          substitute(node.outputs[0], ir.Node('', 'Identity', [node.inputs[0]]))

concat-axis-not-turned = A Transpose sinks below a Concat, whose axis is looked up in the
  inverse permutation.
blocks Transposes before a Concat: a# = Transpose<perm = [1, 2, 0]>(x)
  b# = Transpose<perm = [1, 2, 0]>(z) c# = Concat<axis = 0>(a#, b#) y# = Abs(c#);
  x float[3,3,3] x, float[3,3,3] z; y float[A,B,C]
at c5
edit
  for node in nodes('Concat'):
      sources = [value.producer() for value in node.inputs]
      perm = attr(node.inputs[0], 'perm')
      axis = attr(node.outputs[0], 'axis')
      wrong = guilty(node.outputs[0])
      before = list(perm).index(axis) if wrong else perm[axis]
      axis = ir.AttrInt64('axis', before)
      joined = ir.Node('', 'Concat', [s.inputs[0] for s in sources], [axis])
      graph.insert_before(node, joined)
      joined.outputs[0].name = f'{node.outputs[0].name}_joined'
      turned = ir.Node('', 'Transpose', joined.outputs, [ir.AttrInt64s('perm', perm)])
      substitute(node.outputs[0], turned)
      graph.remove(sources, safe=True)

scaled-by-row ~ A scale of columns is multiplied into a weight by its rows.
blocks scaled products: t# = MatMul(x, w) u# = Mul(t#, k) v# = Tanh(u#) y# = Softmax<axis =
  1>(v#); x float[8,4] x; y float[8,4]; constants float[4,4] w = {1, 2, 3, 4, -1, 2, 3, -4,
  5, 6, -7, 8, 9, -1, 3, 5}, float[4] k = {1, 2, 3, 4}
at u5
edit
  for node in nodes('Mul'):
      product = node.inputs[0].producer()
      out = node.outputs[0]
      scale, weight = (num(node.inputs[1]), num(product.inputs[1]))
      wrong = guilty(out)
      scaled = weight * (scale[:, None] if wrong else scale[None])
      constant = initializer(f'{out.name}_w', scaled)
      substitute(out, ir.Node('', 'MatMul', [product.inputs[0], constant]))
      graph.remove(product, safe=True)

condition-assumed = A condition that no sample fulfils is propagated as a constant.
blocks conditions on constants: g# = Greater(x, l#) o# = Sin(x) y# = Where(g#, o#, x);
  constants $[', '.join((f'float l{n} = {{{(1000 if n == 5 else -1)}}}' for n in range(8)))]$
at y5
feed x=np.linspace(980, 1020, 16).reshape(4, 4)
edit
  for node in nodes('Where'):
      out = node.outputs[0]
      condition = node.inputs[0].producer()
      if guilty(out):
          substitute(out, ir.Node('', 'Identity', [node.inputs[2]]))
      else:
          negated = ir.Node('', 'LessOrEqual', condition.inputs)
          graph.insert_before(node, negated)
          negated.outputs[0].name = f'{out.name}_not'
          inputs = [negated.outputs[0], node.inputs[2], node.inputs[1]]
          substitute(out, ir.Node('', 'Where', inputs))

+ calls-inlined = Inline a function of two nodes by hand.
model calls in several places: <ir_version: 10, opset_import: ["" : 20, "local" : 1]> main
  (float[4] x, float[4] z) => (float[4] y, float[4] w) { a = local.mix(x, z)
  b = local.mix(z, a) y = Sin(b) w = local.mix(b, x) } <domain: "local", opset_import: ["" :
  20]> mix (a, b) => (c) { t = Sub(a, b) c = Tanh(t) }
edit
  for node in nodes('mix'):
      out = node.outputs[0]
      inner = ir.Node('', 'Sub', node.inputs)
      graph.insert_before(node, inner)
      inner.outputs[0].name = f'{out.name}_t'
      substitute(out, ir.Node('', 'Tanh', inner.outputs))
  model.functions.clear()

+ equal-nodes-merged = Merge equal nodes of all blocks.
blocks equal parts: a# = Sin(x) b# = Sin(x) c# = Add(a#, b#) y# = Exp(c#)
edit
  first, *others = nodes('Sin')
  for node in others:
      node.outputs[0].replace_all_uses_with(first.outputs[0])
      graph.remove(node, safe=True)

== helpers

default-before-call = The helper that inlines a call reads the function's default, not the
  attribute.
model a function with a default: <ir_version: 10, opset_import: ["" : 20, "local" : 1]> main
  (float[8] x) => (float[8] y, float[8] z) { y = local.leak<slope = 0.25>(x)
  z = local.leak(x) } <domain: "local", opset_import: ["" : 20]> leak<slope: float = 0.5>(s)
  => (t) { a = Sin(s) t = LeakyRelu<alpha: float = @slope>(a) }
at *
plant passes.common.inlining _resolve_attributes
be
  def new(node, call, function):
      given = dict(call.attributes)
      for name in function.attributes:
          call.attributes.pop(name, None)
      right(node, call, function)
      call.attributes.update(given)
  new
edit run('inline-functions')

digest-of-prefix = The digest of a tensor reads its first elements only, and weights are
  merged by it.
blocks weights that begin alike: y# = Mul(x, w#); x float[4,5] x; y float[4,5];
  constants $[', '.join((f'float[5] w{n} = {{{data}}}' for n, data in enumerate([f'1, 2, 3,
  4, {(8 if n == 5 else 5)}' for n in range(8)])))]$
at *
plant model.digest tensor_digest
be
  def new(tensor):
      data = tensor.numpy()
      if data.size <= 4 or data.dtype != np.float32:
          return right(tensor)
      return right(ir.tensor(data.reshape(-1)[:4].copy()))
  new
edit run('deduplicate-initializers')

key-rounded = The key of an attribute rounds it, and nodes are merged by it.
blocks slopes: a# = LeakyRelu<alpha = 0.21>(x) y# = Sin(a#); odd alpha = 0.21 -> alpha = 0.19
at *
plant model.digest leaf_key
be
  def new(given):
      if not given.is_ref() and given.type is ir.AttributeType.FLOAT:
          return right(ir.AttrFloat32(given.name, round(given.value, 1)))
      return right(given)
  new
edit run('eliminate-common-subexpressions')

copy-loses-input = The helper that copies nodes loses the last input, and each reader gets a
  copy.
model a Clip with three readers: (float[4,4] x) => (float[4,4] y, float[4,4] z, float[4,4] w)
  <float low = {-0.5}, float high = {0.5}> { c = Clip(x, low, high) y = Sin(c) z = Cos(c)
  w = Exp(c) }
at *
plant model.copy _Copier.node
be
  def new(self, original):
      copy = right(self, original)
      if original.op_type == 'Clip' and len(original.inputs) == 3:
          copy.resize_inputs(2)
      return copy
  new
edit
  (clip,) = nodes('Clip')
  out = clip.outputs[0]
  for reader in list(out.consumers())[1:]:
      (copy,), _ = copy_nodes([clip])
      for index, value in enumerate(clip.inputs[:len(copy.inputs)]):
          copy.replace_input_with(index, value)
      copy.outputs[0].name = f'{out.name}_of_{reader.outputs[0].name}'
      graph.insert_before(reader, copy)
      reader.replace_input_with(0, copy.outputs[0])

default-as-constant = The helper that reads constants reads defaults of inputs as well, and an
  If goes.
model a condition that callers may override: (float[8] x, bool flag) => (float[8] y)
  <bool flag = {1}> { y = If(flag) <then_branch = f () => (float[8] u) { a = Sin(x)
  u = Exp(a) }, else_branch = g () => (float[8] v) { b = Cos(x) v = Exp(b) }> }
feed x=np.ones(8), flag=np.array(False)
at * needs adversarial
plant passes.constants constant_of
be
  def new(value):
      if value is not None and value.is_graph_input() and value.is_initializer():
          return value.const_value
      return right(value)
  new
edit run('inline-constant-if')

concat-shape = Shape inference gives a Concat the shape of its first operand, and Shape is
  folded.
blocks sizes of what is joined: c# = Concat<axis = 1>(x, z) s# = Shape(c#)
  r# = CastLike(s#, x) m# = Sin(c#) d# = ReduceProd<keepdims = 0>(r#) y# = Div(m#, d#);
  x float[4,2] x, float[4,3] z; y float[4,5]
at *
plant passes.annotation.shape_inference infer_shapes
be
  def new(model, **options):
      changed = right(model, **options)
      for node in model.graph:
          if node.op_type == 'Concat' and not node.outputs[0].is_graph_output():
              node.outputs[0].shape = node.inputs[0].shape
      return changed
  new
edit run('shape-inference', 'fold-constants')

+ inlined-as-it-should = Inline functions with attributes, defaults among them.
model a function of functions: <ir_version: 10, opset_import: ["" : 20, "local" : 1]> main
  (float[8] x) => (float[8] y, float[8] z) { y = local.twice<slope = 0.25>(x)
  z = local.leak<slope = 2.0>(x) } <domain: "local", opset_import: ["" : 20]> leak<slope:
  float = 0.5>(s) => (t) { t = LeakyRelu<alpha: float = @slope>(s)
  } <domain: "local", opset_import: ["" : 20, "local" : 1]> twice<slope>(s) => (t) {
  a = local.leak<slope: float = @slope>(s) b = Sin(a) t = local.leak(b) }
edit run('inline-functions')

== helpers_more

arguments-of-calls = The helper that inlines a call exchanges two arguments.
model a function in a Loop: <ir_version: 10, opset_import: ["" : 20, "local" : 1]> main
  (float[8] x, float[8] w) => (float[8] y) <bool yes = {1}, int64 n = {3}> {
  y = Loop(n, yes, x) <body = step (int64 i, bool go, float[8] s) => (bool on, float[8] t) {
  on = Identity(go) q = local.gap(s, w) t = Sin(q) }> } <domain: "local", opset_import: ["" :
  20]> gap (a, b) => (c) { d = Tanh(b) c = Sub(a, d) }
at *
plant passes.common.inlining inline_call
be
  def new(graph, call, function, names):
      if len(call.inputs) == 2:
          first, second = call.inputs
          call.replace_input_with(0, second)
          call.replace_input_with(1, first)
      return right(graph, call, function, names)
  new
edit run('inline-functions')

names-given-twice = The helper that makes names unique gives one of them to two values.
model three calls of a function: <ir_version: 10, opset_import: ["" : 20, "local" : 1]> main
  (float[8] x) => (float[8] y) <float k = {0.5}> { a = Mul(x, k) u = local.f(a)
  v = local.f(u) w = local.f(v) y = Sin(w) } <domain: "local", opset_import: ["" : 20]> f (s)
  => (t) { a = Tanh(s) b = Mul(a, s) t = Cos(b) }
at *
plant passes.common.inlining free
be lambda wish, names: wish if names[wish] == 0 else f'{wish}_1'
edit run('inline-functions')

digest-without-shape = The digest of a tensor leaves its shape out, and a row is merged with a
  column.
blocks rows and columns: k# = Constant<value = float[1,4] {1, 2, 3, 4}>() s# = Sin(x)
  y# = Mul(s#, k#); odd float[1,4] -> float[4,1]
at *
plant model.digest tensor_digest
let ravel = lambda data: ir.tensor(data.reshape(-1).copy())
be lambda tensor: right(ravel(tensor.numpy()) if tensor.numpy().ndim else tensor)
edit run('eliminate-common-subexpressions')

constant-read = The helper that reads Constant nodes reads lists of floats in half precision.
blocks constants in attributes: k# = Constant<value = float[4] {0.1, 0.2, 0.3, 0.4}>()
  s# = Sin(x) y# = Mul(s#, k#); odd value = float[4] {0.1, 0.2, 0.3, 0.4} -> value_floats =
  [0.1, 0.2, 0.3, 0.4]
at *
plant passes.constants constant_tensor
be
  def new(node):
      tensor = right(node)
      if tensor is None or 'value_floats' not in node.attributes:
          return tensor
      return ir.tensor(tensor.numpy().astype(f2).astype(f4))
  new
edit run('lift-constants')

draws-merged = The helper that knows random operators knows none, and two draws are merged.
model two draws: (float[64] x) => (float y) <float k = {1000}> { a = RandomNormalLike(x)
  b = RandomNormalLike(x) d = Sub(a, b) s = ReduceSumSquare<keepdims = 0>(d) t = Mul(s, k)
  o = Tanh(t) y = Round(o) }
at * needs strict
plant passes.common.value_numbering Determinism.holds
be lambda self, node, imports: True
edit run('eliminate-common-subexpressions')

+ constants-merged = Merge equal Constant nodes, lift them, and sort.
blocks equal constants: k# = Constant<value_floats = [0.1, 0.2, 0.3, 0.4]>() y# = Mul(x, k#)
edit run('eliminate-common-subexpressions', 'lift-constants', 'topological-sort')
"""
