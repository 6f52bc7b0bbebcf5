from tests.tables import each_of, pass_cases


@each_of(
    "dims, operator, first, second, after",
    ("3,4", "Unsqueeze", "0", "2", [0, 2]),
    ("3,4", "Unsqueeze", "2", "0", [0, 3]),
    ("3,4", "Unsqueeze", "1", "1", [1, 2]),
    ("3,4", "Unsqueeze", "-1", "0", [0, 3]),
    ("3,4", "Unsqueeze", "0", "-1", [0, 3]),
    ("3,4", "Unsqueeze", "1, 0", "-2", [0, 1, 3]),
    ("1,3,1,4,1", "Squeeze", "0", "1", [0, 2]),
    ("1,3,1,4,1", "Squeeze", "2", "0", [0, 2]),
    ("1,3,1,4,1", "Squeeze", "-1", "-2", [2, 4]),
    ("1,3,1,4,1", "Squeeze", "0, 2", "2", [0, 2, 4]),
    ("N,1,1", "Squeeze", "1", "1", [1, 2]),
)
def test_fires(dims, operator, first, second, after, rewrites):
    count = {"Unsqueeze": 1, "Squeeze": -1}[operator] * len(after) + len(dims.split(","))
    model = rewrites(f"""(float[{dims}] x) => (float[{",".join("?" * count)}] y)
        <int64[{len(first.split(","))}] a = {{{first}}},
        int64[{len(second.split(","))}] b = {{{second}}}>
        {{ t = {operator}(x, a) y = {operator}(t, b) }}""")
    constant, node = model.graph
    assert constant.attributes["value"].as_tensor().numpy().tolist() == after
    assert node.op_type == operator


def test_every_reader_of_the_tensor_between_is_merged(rewrites):
    model = rewrites("""(float[N] x) => (float[1,1,1,N] y, float[1,1,N,1] z)
        <int64[2] a = {0, 1}, int64[1] b = {2}, int64[1] c = {3}>
        { t = Unsqueeze(x, a) y = Unsqueeze(t, b) z = Unsqueeze(t, c) }""")
    assert [n.op_type for n in model.graph if n.op_type != "Constant"] == ["Unsqueeze"] * 2


test_cases = pass_cases("""
computed-axes: (float[1,1] x, int64[1] a) => (float[?] y) <int64[1] b = {0}> {
  t = Squeeze(x, a) y = Squeeze(t, b) }
all-axes: (float[1,2] x) => (float[?] y) <int64[1] b = {0}> { t = Squeeze(x)
  y = Unsqueeze(t, b) }
what-is-returned: (float[1,1] x) => (float[?] y, float[1] t) <int64[1] b = {0}> {
  t = Squeeze(x, b) y = Squeeze(t, b) }
what-something-else-reads: (float[N] x) => (float[1,1,N] y, float[1,N] z) <int64[1] b = {0}>
  { t = Unsqueeze(x, b) y = Unsqueeze(t, b) z = Neg(t) }
axes-as-attributes: <ir_version: 8, opset_import: ["" : 12]> m (float[2] x)
  => (float[1,1,2] y) { t = Unsqueeze<axes = [0]>(x) y = Unsqueeze<axes = [0]>(t) }
""")
