from onnx_passes.passes.fusion.fuse_attention_heads import FuseAttentionHeads
from onnx_passes.testing import assert_leaves_alone
from tests.tables import each_of, each_row, inferred

INPUTS = "float[B,S,4,8] q, float[B,T,2,8] k, float[B,T,2,6] v, float[S,T] m"


def model(body, *, inputs=INPUTS, opset=23):
    return inferred(f"""<ir_version: 10, opset_import: ["" : {opset}]>
      g ({inputs}) => (float[B,S,4,6] y) {{ {body} }}""")


def turned(attention, *names):
    found = (f"{n}t = Transpose<perm = [0, 2, 1, 3]>({n})" for n in names or "qkv")
    return f"{' '.join(found)} {attention} y = Transpose<perm = [0, 2, 1, 3]>(a)"


FLAT = """qs = Constant<value_ints = [0, 0, 32]>() qf = Reshape(q, qs) {queries}
  ks = Constant<value_ints = [0, 0, 16]>() kf = Reshape(k, ks) {keys}
  vs = Constant<value_ints = [0, 0, 12]>() vf = Reshape(v, vs)
  a = Attention<q_num_heads = 4, kv_num_heads = 2, scale = {scale}>({operands})
  s = Constant<value_ints = [0, 0, 4, 6]>() y = Reshape(a, s)"""


@each_of("mask", "", ", m")
@each_of("given, scale", ("<scale = 0.5>", 0.5), ("", 8**-0.5))
def test_fires(mask, given, scale, rewrites):
    inputs = INPUTS if mask else INPUTS.rpartition(", ")[0]
    flat = FLAT.format(queries="", keys="", scale=scale, operands=f"qf, kf, vf{mask}")
    before = model(turned(f"a = Attention{given}(qt, kt, vt{mask})"), inputs=inputs)
    rewrites(before, model(flat, inputs=inputs))


def test_tells_rotary_embeddings_their_heads(rewrites):
    tables = ", float[B,S,4] c, float[B,S,4] n, float[B,T,4] d, float[B,T,4] o"
    rotated = """qr = RotaryEmbedding(qt, c, n) kr = RotaryEmbedding(kt, d, o)
      a = Attention<scale = 0.5>(qr, kr, vt, m)"""
    flat = FLAT.format(
        queries="qr = RotaryEmbedding<num_heads = 4>(qf, c, n)",
        keys="kr = RotaryEmbedding<num_heads = 2>(kf, d, o)",
        scale=0.5,
        operands="qr, kr, vf, m",
    )
    inputs = INPUTS + tables
    rewrites(model(turned(rotated), inputs=inputs), model(flat, inputs=inputs))


@each_of("rotary", False, True)
def test_leaves_a_cache_as_it_is(rotary, rewrites):
    inputs = INPUTS.replace("[S,T] m", "[B,2,P,8] h, float[B,2,P,6] w")
    results = "float[B,S,4,6] y, float[B,2,N,8] p, float[B,2,N,6] r"
    queries = keys = turn = ""
    operands, flat = ("qt, kt, vt, , h, w", "qf, kf, vf, , h, w")
    if rotary:
        inputs += ", float[B,S,4] c, float[B,S,4] n, float[B,T,4] d, float[B,T,4] o"
        queries = "qr = RotaryEmbedding<num_heads = 4>(qf, c, n)"
        keys = "kr = RotaryEmbedding<num_heads = 2>(kf, d, o)"
        turn = "qr = RotaryEmbedding(qt, c, n) kr = RotaryEmbedding(kt, d, o)"
        operands, flat = ("qr, kr, vt, , h, w", "qr, kr, vf, , h, w")

    def cached(body):
        return inferred(f"""<ir_version: 10, opset_import: ["" : 23]>
          g ({inputs}) => ({results}) {{ {body} }}""")

    before = turned(f"{turn} a, p, r = Attention<scale = 0.5>({operands})")
    after = FLAT.format(queries=queries, keys=keys, scale=0.5, operands=flat)
    after = after.replace("a = Attention", "a, p, r = Attention")
    rewrites(cached(before), cached(after))


@each_row("""body | inputs
unknown-heads: =turned('a = Attention(qt, kt, vt)')
  | float[B,S,H,8] q, float[B,T,H,8] k, float[B,T,H,6] v
values-with-heads-first: =turned('a = Attention(qt, kt, v)', 'q', 'k')
  | float[B,S,2,8] q, float[B,T,2,8] k, float[B,2,T,6] v
only-keys-rotated: =turned('kr = RotaryEmbedding(kt, c, n) a = Attention(qt, kr, vt)')
  | float[B,S,2,8] q, float[B,T,2,8] k, float[B,T,2,6] v, float[B,T,4] c, float[B,T,4] n
""")
def test_leaves_alone(body, inputs):
    dims = "B,S,H,6" if "H" in inputs else "B,S,2,6"
    text = f"""<ir_version: 10, opset_import: ["" : 23]>
      g ({inputs}) => (float[{dims}] y) {{ {body} }}"""
    assert_leaves_alone(FuseAttentionHeads(), inferred(text))
