"""Where sizes of queries, keys and mask reach Attention on the ways that exporters take."""

import numpy as np
import onnx_ir as ir

from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.passes.fusion.fuse_attention import FuseAttention
from onnx_passes.testing import parse
from tests.tables import each_of, each_row, inferred

TOKENS = "tokens = Gather(words, ids) length = Shape<start = 1, end = 2>(ids)"

POSITIONS = {
    "bert-torchscript": """places = Slice(table, zeros, length, ones)
      at = Gather(positions, places) hidden = Add(tokens, at)""",
    "whisper-torchscript": """n = Squeeze(length) row = Range(zero, n, one)
      rows = Unsqueeze(row, zeros) batch = Shape<start = 0, end = 1>(ids)
      times = Concat<axis = 0>(batch, ones) places = Tile(rows, times)
      at = Gather(positions, places) hidden = Add(tokens, at)""",
    "whisper-dynamo": """n = Squeeze(length) row = Range(zero, n, one)
      rows = Unsqueeze(row, zeros) batch = Shape<start = 0, end = 1>(ids)
      times = Concat<axis = 0>(batch, ones) places = Tile(rows, times)
      inner = Unsqueeze(places, last) at = GatherND(positions, inner)
      hidden = Add(tokens, at)""",
    "t5": "hidden = Identity(tokens)",
}
MASKS = {
    "bert": """pairs = Greater(ids, zero) wide = Unsqueeze(pairs, middle)
      mask = Where(wide, none, far)""",
    "t5-torchscript": """pairs = Greater(ids, zero) wide = Unsqueeze(pairs, middle)
      sizes = Concat<axis = 0>(ones, ones, length, length)
      blank = ConstantOfShape<value = float[1] {0}>(sizes) mask = Where(wide, blank, far)""",
}
REST = """spread = Reshape(hidden, heads) q = Transpose<perm = [0, 2, 1, 3]>(spread)
  t = Transpose<perm = [0, 2, 3, 1]>(spread) s = MatMul(q, t) scores = Div(s, root)
  masked = Add(scores, mask) p = Softmax<axis = -1>(masked) y = MatMul(p, q)"""
WEIGHTS = "float[9,8] words, float[16,8] positions, int64[1,16] table"
KNOWN = """float none = {0},
  float far = {-10000}, float root = {2}, int64[1] zeros = {0}, int64[1] ones = {1},
  int64 zero = {0}, int64 one = {1}, int64[1] last = {-1}, int64[2] middle = {1, 2},
  int64[4] heads = {0, 0, 2, 4}"""


def exported(positions, mask):
    parts = " ".join((TOKENS, POSITIONS[positions], MASKS[mask], REST))
    made = parse(f"""<ir_version: 10, opset_import: ["" : 23]>
      g (int64[B,S] ids, {WEIGHTS}) => (float[B,2,S,4] y) <{KNOWN}> {{ {parts} }}""")
    for value in list(made.graph.initializers.values()):
        if not value.uses():
            made.graph.initializers.pop(str(value.name))
    ShapeInference()(made)
    return made


@each_row("""positions | mask
- bert-torchscript | bert
- whisper-torchscript | bert
- whisper-dynamo | bert
- t5 | t5-torchscript
""")
def test_attention_is_fused(positions, mask, rewrites):
    draw = np.random.default_rng(0)
    feeds = {
        "ids": draw.integers(0, 9, (2, 5)),
        "words": draw.standard_normal((9, 8), np.float32),
        "positions": draw.standard_normal((16, 8), np.float32),
        "table": np.arange(16).reshape(1, 16),
    }
    before = ir.to_onnx_text(exported(positions, mask))
    after = rewrites(FuseAttention(), before, feeds=[feeds])
    assert [n.op_type for n in after.graph].count("Attention") == 1


CACHED = """new = Shape<start = 2, end = 3>(q) old = Shape<start = 2, end = 3>(past_k)
  sum = Add(old, new) total = Squeeze(sum) all = Range(zero, total, one)
  width = Squeeze(new) row = Range(zero, width, one) at = Add(row, old)
  down = Unsqueeze(at, last) seen = LessOrEqual(all, down) mask = Where(seen, none, far)
  keys = Concat<axis = -2>(past_k, k) values = Concat<axis = -2>(past_v, v)
  t = Transpose<perm = [0, 1, 3, 2]>(keys) s = MatMul(q, t) scores = Div(s, root)
  masked = Add(scores, mask) p = Softmax<axis = -1>(masked) y = MatMul(p, values)"""
NEW, OLD = "float[B,2,S,4]", "float[B,2,P,4]"


@each_of("total", "T", "S")
def test_attention_is_fused_over_a_cache_as_gpt2_has_it(total, rewrites):
    before = inferred(f"""<ir_version: 10, opset_import: ["" : 23]>
      g ({NEW} q, {NEW} k, {NEW} v, {OLD} past_k, {OLD} past_v)
      => ({NEW} y, float[B,2,{total},4] keys, float[B,2,{total},4] values) <float none = {{0}},
      float far = {{-10000}}, float root = {{2}}, int64 zero = {{0}}, int64 one = {{1}},
      int64[1] last = {{-1}}> {{ {CACHED} }}""")
    feeds = {name: array(2, 2, 3, 4) for name in "qkv"}
    feeds |= {name: array(2, 2, 5, 4) for name in ("past_k", "past_v")}
    after = rewrites(FuseAttention(), ir.to_onnx_text(before), feeds=[feeds])
    assert [n.op_type for n in after.graph].count("Attention") == 1


def array(*shape):
    return np.random.default_rng(0).standard_normal(shape, np.float32)
