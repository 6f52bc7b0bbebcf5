import numpy as np

from tests.tables import each_of, each_row, pass_cases

PAST = ", float[2,3,6,8] pk, float[2,3,6,8] pv"


def model(
    attributes="", inputs="", names="q, k, v", heads=3, outputs="", returned="y", opset=23
):
    return f"""<ir_version: 11, opset_import: ["" : {opset}]> g
      (float[2,3,4,8] q, float[2,{heads},5,8] k, float[2,{heads},5,8] v{inputs})
      => (float[2,3,4,8] y{outputs}) {{ {returned} = Attention{attributes}({names}) }}"""


@each_of("opset", 23, 24)
@each_row("""text
plain: ={}
scale: ={'attributes': '<scale = 0.1>'}
softcap: ={'attributes': '<softcap = 2.0>'}
causal: ={'attributes': '<is_causal = 1>'}
shared-keys: ={'heads': 1}
mask: ={'inputs': ', float[4,5] m', 'names': 'q, k, v, m'}
choice: ={'inputs': ', bool[2,1,4,5] m', 'names': 'q, k, v, m'}
past-and-present: ={'inputs': PAST, 'names': 'q, k, v, , pk, pv', 'outputs': ',
  float[2,3,11,8] nk, float[2,3,11,8] nv', 'returned': 'y, nk, nv'}
products: ={'outputs': ', float[2,3,4,5] p', 'returned': 'y, , , p'}
""")
def test_fires(text, opset, rewrites):
    after = rewrites(model(**text, opset=opset))
    assert "Attention" not in {node.op_type for node in after.graph}


def test_fires_on_joined_heads_and_dynamic_lengths(rewrites):
    text = """<ir_version: 11, opset_import: ["" : 23]> g
    (float[B,S,12] q, float[B,T,12] k, float[B,T,12] v) => (float[B,S,12] y) {
    y = Attention<q_num_heads = 3, kv_num_heads = 3>(q, k, v) }"""
    rng = np.random.default_rng(0)
    shapes = {"q": (2, 4, 12), "k": (2, 5, 12), "v": (2, 5, 12)}
    feeds = [{n: rng.standard_normal(s, np.float32) for n, s in shapes.items()}]
    rewrites(text, feeds=feeds)


test_cases = pass_cases("""
masked products: =model('<is_causal = 1, qk_matmul_output_mode = 1>', outputs=',
  float[2,3,4,5] p', returned='y, , , p')
""")
