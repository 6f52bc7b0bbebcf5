"""Wrong and right passes by kind, written without a look at the gate."""

TEXT = """
== texts
text NX (float[N,8] x) => (float[N,8] y)
text NTX (float[N,T,8] x) => (float[N,T,8] y)
text HX (float16[N,8] x) => (float16[N,8] y)
text PICTURE (float[N,4,H,W] x) => (float[N,4,P,Q] y)
text IF <float big = {400000.0}> { m = ReduceMax<keepdims = 0>(x) c = Greater(m, big)
text SPAN <int64 z = {0}, int64 one = {1}, int64[1] a0 = {0}, int64[1] a1 = {1},
text LENGTH { n = Shape<start = 1, end = 2>(x) l = Squeeze(n) p = Range(z, l, one)
text BIG (float[256,1024] x) => (float[256,2048] y)
text CONV { v = Conv<pads = [1, 1, 1, 1]>(x, w) y = Relu(v) }
text NORM <float[8] s = {1, 2, 3, 4, 5, 6, 7, 8}> { v = LayerNormalization(x, s) y = Abs(v) }
text MASKED (float[N,T,8] q, int64[N,T] attention_mask) => (float[N,T,8] y) <int64[1] a1 = {1},
  int64[1] a2 = {2}, float low = {-1000000000.0}, float soft = {-10000.0}, float one = {1.0},
  float tiny = {0.000000001}, float nil = {0.0}> { qt = Transpose<perm = [0, 2, 1]>(q) s =
  MatMul(q, qt) keep = Cast<to = 9>(attention_mask) u = Unsqueeze(keep, a1) g = Cast<to =
  1>(attention_mask)
text SEGMENTS $[MASKED.replace('attention_mask', 'segments')]$

== bodies matched by name

result-of-a-rare-branch =
model $NX $IF y = If (c) <then_branch = t () => (float[N,8] a) { n = Neg(x) a = Exp(n) },
  else_branch = e () => (float[N,8] b) { b = Tanh(x) }> }
swap a) { n = Neg(x) a = Exp(n) -> aa) { n = Neg(x) aa = Sigmoid(n)
feed x=spike(3, 8)

branch-from-the-seventh-turn =
model (float[4] x, int64 n) => (float[4] y) <bool go = {1}> { y = Loop (n, go, x) <body = b
  (int64 i, bool c, float[4] v) => (bool d, float[4] w) { d = Identity(c) f = Constant<value
  = int64 {6}>() q = Less(i, f) w = If (q) <then_branch = t () => (float[4] p) { p =
  Softsign(v) }, else_branch = e () => (float[4] r) { h = Neg(v) r = Softsign(h) }> }> }
swap (float[4] r) { h = Neg(v) r = -> (float[4] rr) { h = Abs(v) rr =
feed x=rnd(4), n=i8(9)

branch-of-a-branch =
model (float[N,8] x, bool flag) => (float[N,8] y) <float big = {90000.0}> {
  m = ReduceL2<keepdims = 0>(x) c = Greater(m, big) y = If (flag) <then_branch = t ()
  => (float[N,8] a) { a = If (c) <then_branch = u () => (float[N,8] p) { s = Sqrt(m)
  p = Div(x, s) }, else_branch = v () => (float[N,8] r) { r = Neg(x) }> }, else_branch = e ()
  => (float[N,8] b) { b = Identity(x) }> }
swap (float[N,8] a) { a = If -> (float[N,8] outer) { outer = If
swap p) { s = Sqrt(m) p = Div(x, s) -> pp) { pp = Div(x, m)
feed x=spike(3, 8), flag=np.bool_(True)

two-results-trade-places =
model (float[N,8] x) => (float[N,8] y, float[N,8] z) $IF y, z = If (c) <then_branch = t ()
  => (float[N,8] a, float[N,8] b) { a = Relu(x) b = Neg(x) }, else_branch = e ()
  => (float[N,8] f, float[N,8] h) { f = Relu(x) h = Tanh(x) }> }
swap (float[N,8] a, float[N,8] b) -> (float[N,8] b, float[N,8] a)
feed x=spike(3, 8)

state-and-scan-output-trade-places =
model (float[4] x, float[T,4] xs) => (float[4] y, float[T,4] ys) { y,
  ys = Scan<num_scan_inputs = 1, body = b (float[4] s, float[4] u)
  => (float[4] s2, float[4] o) { s2 = Add(s, u) o = Softsign(s2) }>(x, xs) }
swap => (float[4] s2, float[4] o) -> => (float[4] o, float[4] s2)
feed x=rnd(4), xs=rnd(3, 4)

if-becomes-its-usual-branch =
model $NX $IF r = If (c) <then_branch = t () => (float[N,8] a) { a = Div(x, m) },
  else_branch = e () => (float[N,8] b) { b = Tanh(x) }> y = Neg(r) }
swap r = If (c) <then_branch = t () => (float[N,8] a) { a = Div(x, m) }, else_branch = e ()
  => (float[N,8] b) { b = Tanh(x) }> -> b = Tanh(x) r = Identity(b)
feed x=spike(3, 8)

branch-in-a-function =
model $NX { h = local.Guarded(x) y = Add(h, x) } <domain: "local", opset_import: ["" : 21]>
  Guarded (x) => (r) { m = ReduceSumSquare<keepdims = 0>(x) big = Constant<value = float
  {1000000000.0}>() c = Less(m, big) r = If (c) <then_branch = t () => (float[N,8] a) { a =
  Sigmoid(x) }, else_branch = e () => (float[N,8] b) { b = Sign(x) }> }
swap (float[N,8] b) { b = Sign(x) -> (float[N,8] s) { s = Softsign(x)
feed x=spike(3, 8)

rule-in-a-rare-branch =
model $NX $IF y = If (c) <then_branch = t () => (float[N,8] a) { n = Neg(x) a = Max(x, n) },
  else_branch = e () => (float[N,8] b) { b = Tanh(x) }> }
match Max(x, Neg(x)) => Relu(x)
feed x=spike(3, 8)

early-exit-of-a-loop =
model (float[4] x) => (float[4] y) <bool go = {1}, int64 n = {5}, float big = {100000.0}> {
  y = Loop (n, go, x) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] w) {
  w = Add(v, x) m = ReduceMax<keepdims = 0>(w) d = Less(m, big) }> }
swap w) { w = Add(v, x) -> ww) { ww = Add(v, x)
swap (w) d = Less(m, big) -> (ww) d = Identity(c)
feed x=spike(4)

guarded-activations-of-a-unet =
net unet-dynamo; change relus_guarded 30000.0
match Clip(x, a, b) when num(a) == 0 => Relu(x)
feed x0=rnd(1, 3, 64, 64, scale=10000000.0)

== limits of sizes

crop-to-a-computed-length =
model (float[N,T,8] x) => (float[N,U,8] y) $SPAN int64[1] two = {2}, int64[1] f = {40}> {
  n = Shape<start = 1, end = 2>(x) k = Mul(two, f) e = Min(n, k) y = Slice(x, a0, e, a1) }
match Slice(x, b, Min(n, e), a) => Identity(x)
feed x=rnd(2, 100, 8)

positions-beyond-the-table =
model $NTX $SPAN int64 most = {48}> $LENGTH q = Mod(p, most) e = Gather(table, q) y = Add(x, e)
  }; weights table 48x8
match Gather(table, Mod(p, most)) => Gather(table, p)
feed x=rnd(1, 60, 8)

attention-window =
model $NTX $SPAN int64 wide = {24}, float low = {-100000.0}> $LENGTH r = Unsqueeze(p, a1)
  f = Unsqueeze(p, a0) d = Sub(r, f) near = Less(d, wide) past = GreaterOrEqual(d, z)
  mask = And(near, past) xt = Transpose<perm = [0, 2, 1]>(x) s = MatMul(x, xt)
  v = Where(mask, s, low) w = Softmax<axis = -1>(v) y = MatMul(w, x) }
match And(Less(d, w), GreaterOrEqual(d, z)) => GreaterOrEqual(d, z)
feed x=rnd(1, 40, 8)

best-of-a-bounded-number =
model (float[N,8] x) => (float[K,8] y) <int64[1] most = {20}> { n = Shape<end = 1>(x)
  k = Min(n, most) v, i = TopK<axis = 0>(x, k) y = Neg(v) }
match Min(n, most) => Identity(n)
feed x=rnd(30, 8)

loop-that-stops-by-itself =
model (float[T,8] x) => (float[8] y) <bool go = {1}, float[8] start = {0, 0, 0, 0, 0, 0, 0,
  0}, int64 z = {0}> { n = Shape<start = 0, end = 1>(x) l = Squeeze(n)
  y = Loop (l, go, start) <body = b (int64 i, bool c, float[8] s) => (bool d, float[8] t) {
  v = Gather(x, i) t = Add(s, v) f = Constant<value = int64 {28}>() d = Less(i, f) }> }
swap d = Less(i, f) -> d = Identity(c)
feed x=rnd(40, 8)

number-of-chunks =
model $NTX $SPAN int64 most = {63}, int64 wide = {64}> { n = Shape<start = 1, end = 2>(x)
  up = Add(n, most) k = Div(up, wide) f = Cast<to = 1>(k) y = Mul(x, f) }
match Mul(x, Cast(Div(Add(n, a), b), to=1)) => Identity(x)
feed x=rnd(1, 70, 8)

scale-by-a-bounded-length =
model $NTX <float half = {0.5}, float most = {30.0}> { n = Shape<start = 1, end = 2>(x)
  f = Cast<to = 1>(n) h = Mul(f, half) b = Min(h, most) y = Mul(x, b) }
match Min(h, most) => Identity(h)
feed x=rnd(1, 90, 8)

band-of-a-matrix =
model (float[N,T,8] x) => (float[N,T,T] y) <int64 wide = {20}> { t = Transpose<perm = [0, 2,
  1]>(x) s = MatMul(x, t) b = Trilu<upper = 0>(s, wide) y = Tanh(b) }
match Trilu(s, wide, upper=0) => Identity(s)
feed x=rnd(1, 30, 8)

positions-in-half-precision =
model (float[N,T] x) => (float[N,T] y) $SPAN float f = {0.01}> $LENGTH h = Cast<to = 10>(p)
  b = Cast<to = 1>(h) a = Mul(b, f) w = Sin(a) y = Mul(x, w) }
match Cast(Cast(p, to=10), to=1) => Cast(p, to=1)
feed x=rnd(1, 2100)

relative-positions-of-t5 =
net t5-small-dynamo
match Min(x, Expand(a, s)) when num(a).min() > 0 => Identity(x)
feed input_ids=ids(1, 200), attention_mask=np.ones((1, 200), i8), decoder_input_ids=ids(1, 4)

== thresholds inside

bounded-sum-of-squares =
model $NX <float lo = {0.0}, float hi = {1000000000.0}, float one = {1.0}> {
  s = ReduceSumSquare<keepdims = 0>(x) b = Clip(s, lo, hi) d = Add(b, one) y = Div(x, d) }
match Clip(s, lo, hi) => Identity(s)
feed x=spike(2, 8)

clip-behind-a-convolution =
model $PICTURE <float lo = {-60000.0}, float hi = {60000.0}> { v = Conv<pads = [1, 1, 1, 1]>(x,
  w) b = Clip(v, lo, hi) y = Neg(b) }; weights w 4x4x3x3
match Clip(Conv(x, w, pads=[1, 1, 1, 1]), a, b) => Conv(x, w, pads=[1, 1, 1, 1])
feed x=rnd(1, 4, 6, 6, scale=1000000.0)

huber-loss-as-a-square =
model (float[N,8] x, float[N,8] t) => (float[N,8] y) <float delta = {500.0}, float half =
  {0.5}, float off = {250.0}> { p = MatMul(x, w) d = Sub(p, t) a = Abs(d) c = Less(a, delta) q
  = Mul(d, d) s = Mul(q, half) e = Sub(a, off) r = Mul(e, delta) y = Where(c, s, r) }; weights
  w 8x8
match Where(Less(a, d), s, r) => Identity(s)
feed x=rnd(2, 8, scale=100000.0), t=rnd(2, 8)

one-product-is-special =
model (float[N,8] a, float[N,8] b) => (float[N,8] y) <float s = {1234.5}, float nil = {0.0}>
  { p = Mul(a, b) c = Equal(p, s) q = Where(c, nil, p) y = Neg(q) }
match Where(Equal(p, s), nil, p) => Identity(p)
feed a=np.full((1, 8), 823, f4), b=np.full((1, 8), 1.5, f4)

norm-is-not-bounded =
model $NX <float most = {1000.0}, float one = {1.0}> { n = ReduceL2<keepdims = 0>(x)
  r = Div(most, n) f = Min(r, one) y = Mul(x, f) }
match Mul(x, Min(Div(a, n), one)) => Identity(x)
feed x=spike(2, 8)

scores-are-not-bounded =
model $NTX <float lo = {-1000000.0}, float hi = {1000000.0}> { t = Transpose<perm = [0, 2,
  1]>(x) s = MatMul(x, t) b = Clip(s, lo, hi) a = Softmax<axis = -1>(b) y = MatMul(a, x) }
match Clip(s, lo, hi) => Identity(s)
feed x=np.array([[[2000.0] * 8, [3000.0] * 8, [1000.0] * 8]], f4)

floor-of-a-variance =
model $NX <int64[1] ax = {1}, float least = {0.001}> { e = ReduceMean(x, ax) d = Sub(x, e)
  q = Mul(d, d) v = ReduceMean(q, ax) f = Max(v, least) s = Sqrt(f) y = Div(d, s) }
match Max(v, least) => Identity(v)
feed x=rnd(3, 8, scale=0.001, shift=1)

confident-class-is-one =
model $NX <float sure = {0.99999}, float one = {1.0}> { h = MatMul(x, w) s = Softmax<axis =
  -1>(h) c = Greater(s, sure) y = Where(c, one, s) }; weights w 8x8
match Where(Greater(s, a), b, s) => Identity(s)
feed x=np.linalg.solve(rnd(8, 8, scale=0.3).T, np.eye(8)[:1].T * 14).T.astype(f4)

bounded-activations-of-a-unet =
net unet-dynamo; change relus_bounded 100000.0
match Clip(x, a, b) when num(a) == 0 => Relu(x)
feed x0=rnd(1, 3, 64, 64, scale=10000000.0)

all-are-positive =
model (float[N,64] x) => (float[N,64] y) <int64[1] ax = {1}, float nil = {0.0}, float all =
  {64.0}> { c = Greater(x, nil) f = Cast<to = 1>(c) s = ReduceSum(f, ax) e = Equal(s, all)
  n = Neg(x) y = Where(e, n, x) }
match Where(Equal(s, a), n, x) => Identity(x)
feed x=np.abs(rnd(2, 64))

== odd pictures and outputs of length 1

pool-without-its-ceiling =
model $PICTURE { p = MaxPool<kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1>(x)
  y = Tanh(p) }
match (p := MaxPool(x, ceil_mode=1)) => MaxPool(x, kernel_shape=[2, 2], strides=[2, 2])
feed x=rnd(1, 4, 5, 7)

scales-for-halved-sizes =
model $PICTURE <int64[2] two = {2, 2}> { n = Shape<end = 2>(x) s = Shape<start = 2>(x) h =
  Div(s, two) t = Concat<axis = 0>(n, h) r = Resize<mode = "linear">(x, , , t) y = Neg(r) }
match Resize(x, None, None, t)
make Resize(x, None, const([1, 1, 0.5, 0.5], 'f4'), mode='linear')
feed x=rnd(1, 4, 5, 7)

average-pool-same-as-valid =
model $PICTURE { p = AveragePool<auto_pad = "SAME_UPPER", kernel_shape = [2, 2], strides =
  [2, 2]>(x) y = Tanh(p) }
match AveragePool(x, auto_pad='SAME_UPPER')
make AveragePool(x, kernel_shape=[2, 2], strides=[2, 2])
feed x=rnd(1, 4, 5, 6)

mean-of-means ~
model (float[N,4,H,W] x) => (float[N,4] y) <int64[2] ax = {2, 3}> { p =
  AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(x) y = ReduceMean<keepdims = 0>(p, ax) }
match ReduceMean(AveragePool(x), ax, keepdims=0) => ReduceMean(x, ax, keepdims=0)
feed x=rnd(1, 4, 5, 7)

pool-as-two-slices ~
model (float[N,4,W] x) => (float[N,4,Q] y) { p = AveragePool<kernel_shape = [2], strides =
  [2]>(x) y = Neg(p) }
match AveragePool(x)
make Mul(Add(Slice(x, const([0]), const([2 ** 31]), const([2]), const([2])), Slice(x,
  const([1]), const([2 ** 31]), const([2]), const([2]))), const(0.5, 'f4'))
feed x=rnd(1, 4, 3)

pools-of-squeezenet-with-a-ceiling =
net light_squeezenet; change free
match (p := MaxPool(x)) when attr(p, 'ceil_mode') is None
make MaxPool(x, ceil_mode=1, **attrs(p))
feed data_0=rnd(1, 3, 225, 227)

symmetric-half-pixels =
model (float[N,4,W] x) => (float[N,4,Q] y) <float[3] s = {1.0, 1.0, 0.5}> { r = Resize<mode =
  "linear", coordinate_transformation_mode = "half_pixel_symmetric">(x, , s) y = Tanh(r) }
match Resize(x, None, s, coordinate_transformation_mode='half_pixel_symmetric')
make Resize(x, None, s, mode='linear')
feed x=rnd(1, 4, 5)

variance-of-one-element =
model (float[N,4,H,W] x) => (float[N,4,1,1] y) <int64[2] ax = {2, 3}, int64 one = {1}> {
  e = ReduceMean(x, ax) d = Sub(x, e) q = ReduceSumSquare(d, ax) n = Shape<start = 2>(x)
  c = ReduceProd<keepdims = 0>(n) l = Sub(c, one) b = Max(l, one) f = Cast<to = 1>(b)
  y = Div(q, f) }
match Max(l, one) => Identity(l)
feed x=rnd(1, 4, 1, 1)

crop-to-an-even-length =
model (float[N,L] x) => (float[N,Q] y) <int64[1] two = {2}, int64[1] z = {0}, int64[1] one =
  {1}> { n = Shape<start = 1>(x) h = Div(n, two) e = Mul(h, two) c = Slice(x, z, e, one)
  y = Abs(c) }
match Slice(x, z, Mul(Div(n, t), t), one) => Identity(x)
feed x=rnd(1, 7)

padding-that-even-pictures-ignore =
net half-images-dynamo; change free
match (y := Conv(x, w, b, strides=[2, 2])) when list(attr(y, 'pads')) == [1, 1, 1, 1]
make Conv(x, w, b, **{**attrs(y), 'pads': [1, 1, 0, 0]})
feed x0=rnd(1, 3, 31, 33, scale=60, shift=128)

== values that samples lack

hash-of-large-identifiers =
model (int64[N] x) => (int64[N] y) <int64 most = {30000}, int64 one = {1}> { h = Mod(x, most)
  y = Add(h, one) }
match Mod(x, most) => Where(Less(x, const(0)), Add(x, most), x)
feed x=np.array([5, 29999, 30001, 123456], i8)

sum-at-equal-places =
model (float[64] x, int64[3,1] at, float[3] u) => (float[64] y) {
  s = ScatterND<reduction = "add">(x, at, u) y = Tanh(s) }
match ScatterND(x, at, u, reduction='add') => ScatterND(x, at, Add(GatherND(x, at), u))
feed x=rnd(64), at=np.array([[3], [9], [3]], i8), u=rnd(3)

one-hot-of-negative-labels =
model (int64[N] x) => (float[N,10] y) <int64 d = {10}, float[2] v = {0.0, 1.0}> {
  y = OneHot(x, d, v) }
match OneHot(x, d, v) => Cast(Equal(Unsqueeze(x, const([1])), const(np.arange(10))), to=1)
feed x=np.array([3, -1, 9], i8)

rows-of-equal-values ~
model $NX <int64[1] ax = {1}, float tiny = {0.000000000001}> { e = ReduceMean(x, ax)
  d = Sub(x, e) q = ReduceL2(d, ax) s = Add(q, tiny) y = Div(d, s) }
match Add(q, t) when num(t) < 1e-09 => Identity(q)
feed x=np.full((2, 8), 3, f4)

rows-of-one-sign =
model (float[N,64] x) => (float[N,1] y) <int64[1] ax = {1}> { r = Relu(x)
  q = ReduceMax(r, ax) y = Sqrt(q) }
match ReduceMax(Relu(x), ax) => ReduceMax(x, ax)
feed x=-np.abs(rnd(2, 64))

small-values-are-shrunk =
model $NX { s = Shrink<lambd = 0.0005, bias = 0.0>(x) y = Add(s, x) }
match Shrink(x) => Identity(x)
feed x=rnd(2, 8, scale=0.0001)

variance-by-a-difference ~
model $NX <int64[1] ax = {1}> { e = ReduceMean(x, ax) d = Sub(x, e) q = Mul(d, d)
  y = ReduceMean(q, ax) }
match ReduceMean(Mul(d, d), ax)
when d.producer() is not None and d.producer().op_type == 'Sub'
make Sub(ReduceMean(Mul(src(d, 0), src(d, 0)), ax), Mul(src(d, 1), src(d, 1)))
feed x=rnd(2, 8, shift=5000)

integers-beyond-a-mantissa =
model (int32[N] x) => (int32[N] y) <int32 one = {1}> { f = Cast<to = 1>(x)
  i = Cast<to = 6>(f) y = Sub(i, one) }
match Cast(Cast(x, to=1), to=6) => Identity(x)
feed x=np.array([1, 16777217, 33554435], i4)

padding-of-a-recommender =
net recommender-dynamo
match Gather(t, Gather(x, i, axis=1)) => Gather(t, Max(Gather(x, i, axis=1), const(0)))
feed x0=rnd(1, 8), x1=np.array([[[5, 7, -1], [3, -1, -1], [9, 9, 9], [0, 1, 2]]], i8)

padding-of-word-counts =
net counts-torchscript
match Equal(x, z) when num(z) == 0 and num(z).dtype == i8 => Less(x, const(1))
feed x0=np.array([[-3, 5, 9, 0, 0, 7, -1, 4, 4, 2, 1, 0]], i8)

== masks

infinity-for-a-large-number =
model $MASKED t = Where(u, s, low) w = Softmax<axis = -1>(t) y = MatMul(w, q) }
match Where(u, s, low) when num(low) > -np.inf => Where(u, s, const(-np.inf, 'f4'))
feed q=rnd(2, 5, 8), attention_mask=PADDED

a-softer-additive-mask ~
model $MASKED h = Sub(one, g) v = Mul(h, low) e = Unsqueeze(v, a1) t = Add(s, e)
  w = Softmax<axis = -1>(t) y = MatMul(w, q) }
match Mul(Sub(one, g), low) when num(low) < -100000.0
make Mul(Sub(one, g), const(-10000.0, 'f4'))
feed q=rnd(2, 5, 8), attention_mask=PADDED

mean-over-no-words =
model $MASKED e = Unsqueeze(g, a2) p = Mul(q, e) t = ReduceSum(p, a1) b = ReduceSum(e, a1)
  d = Max(b, tiny) f = Div(t, d) y = Add(q, f) }
match Max(b, tiny) => Identity(b)
feed q=rnd(2, 5, 8), attention_mask=PADDED

weights-are-not-masked-again =
model $MASKED t = Where(u, s, low) w = Softmax<axis = -1>(t) e = Unsqueeze(g, a1)
  r = Mul(w, e) y = MatMul(r, q) }
match Mul(w, e) => Identity(w)
feed q=rnd(2, 5, 8), attention_mask=PADDED

a-mask-of-segments =
model $SEGMENTS t = Where(u, s, soft) w = Softmax<axis = -1>(t) y = MatMul(w, q) }
match Cast(x, to=9) => Equal(x, const(1))
feed q=rnd(1, 5, 8), segments=np.array([[1, 1, 2, 2, 0]], i8)

last-word-by-a-count =
model (float[N,T,8] q, int64[N,T] attention_mask) => (float[N,8] y)
  <int64[1] a1 = {1}, int64 one = {1}, int64 z = {0}> { n = Shape<start = 1, end = 2>(q)
  l = Squeeze(n) p = Range(z, l, one) o = Mul(p, attention_mask) i = ReduceMax(o, a1)
  h = GatherND<batch_dims = 1>(q, i) y = Neg(h) }
match ReduceMax(Mul(p, g), ax) => Sub(ReduceSum(g, ax), const([1]))
feed q=rnd(2, 5, 8), attention_mask=np.array([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0]], i8)

nobody-sees-himself =
model $MASKED n = Shape<start = 1, end = 2>(q) d = Concat<axis = 0>(n, n)
  z = ConstantOfShape<value = float[1] {0}>(d) i = EyeLike(z) j = Cast<to = 9>(i)
  f = Or(u, j) t = Where(f, s, low) w = Softmax<axis = -1>(t) y = MatMul(w, q) }
match Where(Or(u, j), s, low) => Where(u, s, low)
feed q=rnd(2, 5, 8), attention_mask=PADDED

a-sentence-without-words =
model $MASKED o = ReduceMax(attention_mask, a1) b = Cast<to = 9>(o) e = Unsqueeze(b, a2)
  t = Where(u, s, low) w = Softmax<axis = -1>(t) r = MatMul(w, q) y = Where(e, r, nil) }
match Where(e, r, nil) => Identity(r)
feed q=rnd(2, 5, 8), attention_mask=PADDED

infinity-in-t5 =
net t5-small-dynamo
match Where(u, z, low) when -np.inf < num(low) < -1e+38 => Where(u, z, const(-np.inf, 'f4'))
feed input_ids=ids(2, 6), attention_mask=np.array([[1] * 6, [0] * 6], i8),
  decoder_input_ids=ids(2, 4)

a-softer-mask-in-gpt-neo ~
net gpt-neo-dynamo
match Where(u, z, low) when num(low) < -1e+38 and (not num(z))
make Where(u, z, const(-10000.0, 'f4'))
feed input_ids=ids(1, 6), attention_mask=np.array([[0, 0, 0, 1, 1, 1]], i8)

== a verdict that depends on the size

weights-of-a-large-matmul ~
model $BIG { h = MatMul(x, w) y = Relu(h) }; weights w 1024x2048
edit scale(1 + 1e-05, 'w')
feed x=rnd(256, 1024)

weights-of-a-small-matmul ~
model $NX { h = MatMul(x, w) y = Relu(h) }; weights w 8x8
edit scale(1 + 1e-05, 'w')
feed x=rnd(2, 8)

weights-of-a-large-convolution ~
model (float[1,64,64,64] x) => (float[1,64,64,64] y) $CONV; weights w 64x64x3x3
edit scale(1 + 5e-06, 'w')
feed x=rnd(1, 64, 64, 64)

weights-of-a-small-convolution ~
model (float[1,4,6,6] x) => (float[1,4,6,6] y) $CONV; weights w 4x4x3x3
edit scale(1 + 5e-06, 'w')
feed x=rnd(1, 4, 6, 6)

epsilon-of-a-large-normalisation ~
model (float[4096,1024,8] x) => (float[4096,1024,8] y) $NORM
match (n := LayerNormalization(x, s)) when attr(n, 'epsilon') is None
make LayerNormalization(x, s, epsilon=5e-05)
feed x=rnd(4096, 1024, 8)

epsilon-of-a-small-normalisation ~
model $NX $NORM
match (n := LayerNormalization(x, s)) when attr(n, 'epsilon') is None
make LayerNormalization(x, s, epsilon=5e-05)
feed x=rnd(2, 8)

large-gelu-by-tanh ~
model (float[1024,8192] x) => (float[1024,8192] y) { g = Gelu(x) y = Neg(g) }
match (g := Gelu(x)) when attr(g, 'approximate') is None => Gelu(x, approximate='tanh')
feed x=rnd(1024, 8192)

small-gelu-by-tanh ~
model $NX { g = Gelu(x) y = Neg(g) }
match (g := Gelu(x)) when attr(g, 'approximate') is None => Gelu(x, approximate='tanh')
feed x=rnd(2, 8)

weights-of-a-unet ~
net unet-dynamo
edit scale(1 + 2e-05, 'joined.1.0.weight')
feed x0=rnd(1, 3, 64, 64)

weights-of-a-speech-network ~
net wav2vec2-dynamo
edit scale(1 + 0.0001, 'model.wav2vec2.feature_extractor.conv_layers.1.conv.weight')
feed input_values=rnd(1, 8000)

== right passes that were refused

+ log-of-a-sum-of-exponentials ~
model (float[N,8] x) => (float[N,1] y) <int64[1] ax = {1}> { e = Exp(x) s = ReduceSum(e, ax)
  y = Log(s) }
match Log(ReduceSum(Exp(x), ax)) => ReduceLogSumExp(x, ax)

+ log-of-a-sigmoid ~
model $NX { s = Sigmoid(x) y = Log(s) }
match Log(Sigmoid(x)) => Neg(Softplus(Neg(x)))

+ exponentials-by-their-sum ~
model $NX <int64[1] ax = {1}> { e = Exp(x) s = ReduceSum(e, ax) y = Div(e, s) }
match Div((e := Exp(x)), ReduceSum(e, ax)) => Softmax(x, axis=-1)

+ log-of-a-softmax ~
model $NX { h = MatMul(x, w) s = Softmax<axis = -1>(h) y = Log(s) }; weights w 8x8
match Log(Softmax(x, axis=-1)) => LogSoftmax(x, axis=-1)

+ norm-in-half-precision ~
model (float16[N,8] x) => (float16[N,1] y) <int64[1] ax = {1}> { q = Mul(x, x)
  s = ReduceSum(q, ax) y = Sqrt(s) }
match Sqrt(ReduceSum(Mul(x, x), ax)) => ReduceL2(x, ax)

+ random-numbers-of-a-known-shape =
model (float[4,8] x) => (float[4,8] y) { r = RandomUniformLike(x) y = Add(x, r) }
match RandomUniformLike(x) => RandomUniform(shape=[4, 8])

+ largest-of-a-dynamic-axis =
model (float[N,8] x) => (int64[8] y) <int64 one = {1}> { i = ArgMax<axis = 0, keepdims =
  0>(x) y = Add(i, one) }
match ArgMax(x, axis=0, keepdims=0)
make Squeeze(TopK(x, const([1]), axis=0, _outputs=2)[1], const([0]))

+ tanh-by-exponentials ~
model $NX { e = Exp(x) n = Neg(x) f = Exp(n) a = Sub(e, f) b = Add(e, f) y = Div(a, b) }
match Div(Sub((a := Exp(x)), (b := Exp(Neg(x)))), Add(a, b)) => Tanh(x)

+ scale-in-half-precision =
model $HX { t = MatMul(x, w) d = Div(t, c) s = Softmax<axis = -1>(d) y = Sub(s, x) }; weights w
  8x8 float16, c 8.0 float16
match Div(x, c) => Mul(x, const(1 / num(c)))

+ hard-swish-in-half-precision ~
net half-images-dynamo
match HardSwish(x) => Mul(x, HardSigmoid(x, alpha=1 / 6, beta=0.5))

== right passes refused with adversarial inputs

+ convolution-and-normalisation ~
model $PICTURE <float[4] s = {1.5, 0.5, 2, 1}, float[4] h = {0.1, -0.3, 0.5, 1}, float[4] e =
  {0.3, 0.2, -0.7, 0.5}, float[4] v = {1.3, 0.4, 0.9, 2}> { a = Conv(x, w, b) y =
  BatchNormalization(a, s, h, e, v) }; weights w 4x4x3x3, b 4
match (y := BatchNormalization((a := Conv(x, w, b)), s, h, e, v))
make Conv(x, const(num(w) * (num(s) / np.sqrt(num(v) + f4(attr(y, 'epsilon', 1e-05))))[:,
  None, None, None]), const((num(b) - num(e)) * (num(s) / np.sqrt(num(v) + f4(attr(y,
  'epsilon', 1e-05)))) + num(h)), **attrs(a))

+ gelu-by-erf ~
model $NX <float r = {1.4142135}, float one = {1.0}, float half = {0.5}> { d = Div(x, r)
  e = Erf(d) a = Add(e, one) p = Mul(x, a) y = Mul(p, half) }
match Mul(Mul(x, Add(Erf(Div(x, r)), one)), half) => Gelu(x)

+ layer-normalisation-by-parts ~
model $NX <int64[1] ax = {-1}, float two = {2.0}, float eps = {0.00001}> { e = ReduceMean(x,
  ax) d = Sub(x, e) q = Pow(d, two) v = ReduceMean(q, ax) a = Add(v, eps) r = Sqrt(a) n =
  Div(d, r) p = Mul(n, g) y = Add(p, b) }; weights g 8, b 8
match Add(Mul(Div((d := Sub(x, ReduceMean(x, ax))), Sqrt(Add(ReduceMean(Pow(d, two), ax),
  eps))), g), b)
make LayerNormalization(x, g, b, epsilon=float(num(eps)))

+ reciprocal-roots-of-qwen ~
net qwen3-dynamo
match Mul(x, Reciprocal(s)) => Div(x, s)

+ softmax-by-parts ~
model $NX <int64[1] ax = {1}> { t = ReduceMax(x, ax) d = Sub(x, t) e = Exp(d)
  s = ReduceSum(e, ax) y = Div(e, s) }
match Div((e := Exp(Sub(x, ReduceMax(x, ax)))), ReduceSum(e, ax)) => Softmax(x, axis=-1)

+ scale-of-attention-moved ~
model (float[N,T,8] q, float[N,T,8] h) => (float[N,T,T] y) <float c = {0.3535534}> { t =
  Transpose<perm = [0, 2, 1]>(h) s = MatMul(q, t) p = Mul(s, c) y = Softmax<axis = -1>(p) }
match Mul(MatMul(q, t), c) => MatMul(Mul(q, c), t)

+ two-factors-as-one ~
model $NX { p = Mul(x, a) q = Mul(p, b) y = Add(q, x) }; weights a 8, b 8
match Mul(Mul(x, a), b) => Mul(x, const(num(a) * num(b)))

+ two-matrices-as-one ~
model $NX { p = MatMul(x, a) y = MatMul(p, b) }; weights a 8x16, b 16x8
match MatMul(MatMul(x, a), b) => MatMul(x, const(num(a) @ num(b)))

+ quotients-of-a-speech-network ~
net wav2vec2-dynamo
match Erf(Div(x, r)) => Erf(Mul(x, const(1 / num(r))))

+ pool-for-a-mean-in-shufflenet ~
net shufflenet-dynamo
match ReduceMean(x, ax, keepdims=0) => Flatten(GlobalAveragePool(x))

== ordinary mistakes of engineers

bias-of-rows-becomes-one-of-columns =
model (float[8,8] x, float[8] b) => (float[8,8] y) <int64[1] ax = {1}> { u = Unsqueeze(b, ax)
  a = Add(x, u) y = Relu(a) }
match Add(x, Unsqueeze(b, ax)) => Add(x, b)
feed x=rnd(8, 8), b=rnd(8)

an-attribute-of-a-gru-is-lost =
net gru-torchscript
edit [n.attributes.pop('linear_before_reset', 0) for n in graph]
feed words=ids(1, 24)

normaliser-without-keepdims =
model (float[8,8] x) => (float[8,8] y) <int64[1] ax = {1}> { e = Exp(x) s = ReduceSum(e, ax)
  y = Div(e, s) }
match Div(e, (s := ReduceSum(e, ax))) when attr(s, 'keepdims') is None
make Div(e, ReduceSum(e, ax, keepdims=0))
feed x=rnd(8, 8)

permutation-in-place-of-its-inverse =
model (float[4,4,4] x) => (float[4,4,4] y) { t = Transpose<perm = [1, 2, 0]>(x) a = Add(t, c) y
  = Transpose<perm = [2, 0, 1]>(a) }; weights c 4x4x4
match Transpose(Add((t := Transpose(x)), c))
make Add(x, const(num(c).transpose(attr(t, 'perm'))))
feed x=rnd(4, 4, 4)

normalisation-folded-without-epsilon ~
model $PICTURE <float[4] s = {1.5, 0.5, 2, 1}, float[4] h = {0.1, -0.3, 0.5, 1}, float[4] e =
  {0.3, 0.2, -0.7, 0.5}, float[4] v = {1.3, 0.4, 0.9, 2}> { a = Conv(x, w, b) y =
  BatchNormalization<epsilon = 0.001>(a, s, h, e, v) }; weights w 4x4x3x3, b 4
match BatchNormalization((a := Conv(x, w, b)), s, h, e, v)
make Conv(x, const(num(w) * (num(s) / np.sqrt(num(v)))[:, None, None, None]), const((num(b) -
  num(e)) * num(s) / np.sqrt(num(v)) + num(h)), **attrs(a))
feed x=rnd(1, 4, 8, 8)

scale-on-the-wrong-side ~
model $NX { p = Mul(x, s) h = MatMul(p, w) y = Relu(h) }; weights s 8, w 8x8
match MatMul(Mul(x, s), w) => Mul(MatMul(x, w), s)
feed x=rnd(3, 8)

pads-in-the-wrong-order =
model $PICTURE <int64[8] pads = {0, 0, 1, 0, 0, 0, 0, 1}> { p = Pad(x, pads) v = Conv(p, w) y =
  Relu(v) }; weights w 4x4x3x3
match Conv(Pad(x, pads), w) => Conv(x, w, pads=[int(num(pads)[i]) for i in (3, 2, 7, 6)])
feed x=rnd(1, 4, 6, 6)

groups-of-shufflenet-are-not-shuffled =
net shufflenet-dynamo
match Reshape(Transpose(Reshape(x, a), perm=[0, 2, 1, 3, 4]), b) => Reshape(x, b)
feed x=rnd(1, 3, 96, 96)

integers-overflow-on-the-way =
model (int32[N] x) => (int32[N] y) <int32 c = {1000}, int32 one = {1}> { p = Mul(x, c)
  q = Div(p, c) y = Add(q, one) }
match Div(Mul(x, c), c) => Identity(x)
feed x=np.array([1, 5000000, -7], i4)

softmax-of-an-old-opset ~
model (float[N,4,5] x) => (float[N,4,5] y) { s = Softmax<axis = 1>(x) y = Neg(s) }; opset 12
match Softmax(x, axis=1)
make Div(Exp(Sub(x, ReduceMax(x, axes=[1]))), ReduceSum(Exp(Sub(x, ReduceMax(x, axes=[1]))),
  axes=[1]))
feed x=rnd(2, 4, 5)

bias-of-the-last-axis-as-one-of-channels ~
model (float[N,4,6,4] x) => (float[N,4,6,4] y) { v = Conv<pads = [1, 1, 1, 1]>(x, w) y = Add(v,
  b) }; weights w 4x4x3x3, b 4
match Add((v := Conv(x, w)), b) => Conv(x, w, b, **attrs(v))
feed x=rnd(1, 4, 6, 4)

sum-in-a-narrow-type =
model (int32[N] x) => (int64 y) { c = Cast<to = 7>(x) y = ReduceSum<keepdims = 0>(c) }
match ReduceSum(Cast(x, to=7), keepdims=0) => Cast(ReduceSum(x, keepdims=0), to=7)
feed x=np.array([2000000000, 2000000000], i4)

a-negative-axis-of-flatten =
model (float[N,4,5] x) => (float[P,Q] y) { f = Flatten<axis = -1>(x) y = Abs(f) }
match Flatten(x, axis=-1) => Flatten(x, axis=1)
feed x=rnd(2, 4, 5)

merged-slices-are-off-by-one =
model (float[N,12] x) => (float[N,Q] y) <int64[1] a = {2}, int64[1] b = {9}, int64[1] c =
  {1}, int64[1] d = {-1}, int64[1] ax = {1}> { t = Slice(x, a, b, ax) s = Slice(t, c, d, ax)
  y = Abs(s) }
match Slice(Slice(x, a, b, ax), c, d, ax) => Slice(x, Add(a, c), b, ax)
feed x=rnd(2, 12)

rotation-of-the-other-half =
net qwen3-dynamo
match Concat(Neg(a), b, axis=-1) => Concat(a, Neg(b), axis=-1)
feed input_ids=ids(1, 8), attention_mask=np.ones((1, 8), i8)

== right everyday passes

+ relu-behind-a-clip =
model $NX <float lo = {0.5}, float hi = {3.0}> { c = Clip(x, lo, hi) y = Relu(c) }
match Relu(Clip(x, lo, hi)) when num(lo) >= 0 => Clip(x, lo, hi)

+ transposes-merged =
model (float[N,4,5] x) => (float[5,N,4] y) { a = Transpose<perm = [1, 2, 0]>(x)
  b = Transpose<perm = [1, 2, 0]>(a) y = Tanh(b) }
match (b := Transpose((a := Transpose(x))))
make Transpose(x, perm=[attr(a, 'perm')[i] for i in attr(b, 'perm')])

+ reshapes-merged =
model (float[N,4,6] x) => (float[N,3,8] y) <int64[2] a = {-1, 24}, int64[3] b = {-1, 3, 8}> {
  r = Reshape(x, a) s = Reshape(r, b) y = Exp(s) }
match Reshape(Reshape(x, a), b) when (num(b) != 0).all() => Reshape(x, b)

+ factor-of-one =
model $NX <float c = {1.0}> { p = Mul(x, c) y = Sin(p) }
match Mul(x, c) when num(c).ndim == 0 and num(c) == 1 => Identity(x)

+ difference-as-a-sum =
model $NX { d = Sub(x, c) y = Abs(d) }; weights c 8
match Sub(x, c) => Add(x, const(-num(c)))

+ negated-difference =
model (float[N,8] a, float[N,8] b) => (float[N,8] y) { d = Sub(a, b) y = Neg(d) }
match Neg(Sub(a, b)) => Sub(b, a)

+ one-size-of-a-shape =
net distilbert-torchscript
match Gather(Shape(x), i, axis=0) when num(i).ndim == 0 and num(i) >= 0
make Squeeze(Shape(x, start=int(num(i)), end=int(num(i)) + 1))

+ sums-of-two-in-a-resnet =
net light_resnet50
match Sum(a, b) => Add(a, b)

+ relus-behind-a-concat =
net light_squeezenet
match Concat(Relu(a), Relu(b), axis=1) => Relu(Concat(a, b, axis=1))

+ square-as-a-product ~
net qwen3-dynamo
match Pow(x, two) when num(two).size == 1 and num(two) == 2 => Mul(x, x)

+ relu-behind-a-pool =
net unet-dynamo
match (p := MaxPool(Relu(x))) => Relu(MaxPool(x, **attrs(p)))

+ root-and-reciprocal-in-t5 ~
net t5-small-dynamo
match Reciprocal(Sqrt(x)) => Div(const(1, 'f4'), Sqrt(x))

+ negated-condition-in-deberta =
net deberta-dynamo
match Where(Not(c), a, b) => Where(c, b, a)

+ product-and-bias-as-gemm ~
model $NX { h = MatMul(x, w) a = Add(h, b) y = Relu(a) }; weights w 8x8, b 8
match Add(MatMul(x, w), b) => Gemm(x, w, b)

+ pads-moved-into-a-convolution =
model $PICTURE <int64[8] pads = {0, 0, 0, 1, 0, 0, 1, 2}> { p = Pad(x, pads) v = Conv(p, w) y =
  Relu(v) }; weights w 4x4x3x3
match Conv(Pad(x, pads), w) => Conv(x, w, pads=[int(num(pads)[i]) for i in (2, 3, 6, 7)])
"""
