from tests.tables import cases_in, inferred

INPUTS = "float[B,4,S,8] x, float[B,S,2] c, float[B,S,2] n"
PARTS = """z = Constant<value_ints = [0]>() e = Constant<value_ints = [4]>()
  l = Constant<value_ints = [9223372036854775807]>() a = Constant<value_ints = [-1]>()
  one = Constant<value_ints = [1]>()
  low = Slice(x, z, e, a, one) high = Slice(x, e, l, a, one)"""
SPLIT = "s = Constant<value_ints = [4, 4]>() low, high = Split<axis = -1>(x, s)"
TURNED = "r = RotaryEmbedding(low, c, n) y = Concat<axis = -1>(r, high)"
WIDE = "y = RotaryEmbedding<rotary_embedding_dim = 4>(x, c, n)"


def model(body, *, inputs=INPUTS):
    return inferred(f"""<ir_version: 10, opset_import: ["" : 23]>
      g ({inputs}) => (float[B,4,S,8] y) {{ {body} }}""")


test_cases = cases_in(model)("""
sliced: =model(f'{PARTS} {TURNED}') | =model(WIDE)
split: =model(f'{SPLIT} {TURNED}') | =model(WIDE)
other-order: =model(f'{PARTS} r = RotaryEmbedding(low, c, n) y = Concat<axis = -1>(high, r)')
first-twice: =model(f'{PARTS} {TURNED}'.replace('(x, e, l', '(x, z, e'))
has-the-attribute: =model(f'{PARTS} {TURNED}'.replace('Embedding(',
  'Embedding<rotary_embedding_dim = 4>('))
""")


def test_takes_a_slice_of_some_of_the_channels(rewrites):
    inputs = INPUTS.replace("S,8] x", "S,24] x")
    bounds = PARTS.replace("[0]", "[8]").replace("[4]", "[12]")
    bounds = bounds.replace("[9223372036854775807]", "[16]")
    after = """z = Constant<value_ints = [8]>() e = Constant<value_ints = [16]>()
      a = Constant<value_ints = [-1]>() part = Slice(x, z, e, a)"""
    rewrites(
        model(f"{bounds} {TURNED}", inputs=inputs),
        model(f"{after} {WIDE.replace('(x', '(part')}", inputs=inputs),
    )
