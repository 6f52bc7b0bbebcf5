from tests.tables import pass_cases

test_cases = pass_cases("""
drops a trailing output: (float[1,1,4] x) => (float[1,1,2] y) { y, i = MaxPool<kernel_shape =
  [3]>(x) } | (float[1,1,4] x) => (float[1,1,2] y) { y = MaxPool<kernel_shape = [3]>(x) }
(float[4] x) => (float[2] y) { y, z = Split<num_outputs = 2>(x) }
training: (float[1,2,3] x) => (float[1,2,3] y) <float[2] s = {1, 1}, float[2] m = {0, 0}> { y,
  a, b = BatchNormalization<training_mode = 1>(x, s, m, m, s) }
both-returned: (float[4] x) => (float[2] v, int64[2] i) <int64[1] k = {2}> { v, i = TopK(x, k)
  }
required-by-the-schema: (float[4] x) => (float[2] v) <int64[1] k = {2}> { v, i = TopK(x, k) }
attention-whose-present-keys-onnx-runtime-wants-where-past-ones-are-given: <ir_version: 11,
  opset_import: ["" : 23]> g (float[1,2,3,4] q, float[1,2,3,4] k, float[1,2,3,4] v,
  float[1,2,1,4] pk, float[1,2,1,4] pv) => (float[1,2,3,4] y, float[1,2,4,4] b) { y, a, b =
  Attention(q, k, v, , pk, pv) }
""")


def test_leaves_a_gap_where_a_later_output_is_read(rewrites):
    model = rewrites("""(float[2,1,3] x, float[1,8,3] w, float[1,8,2] r) => (float[1,1,2] c)
        { y, h, c = LSTM<hidden_size = 2>(x, w, r) }""")
    assert [v.name for v in model.graph[0].outputs] == ["", "", "c"]
