import numpy as np

from onnx_passes.passes.precision.fold_qdq import FoldQdq
from tests.tables import each_of, pass_cases


def between(kind="uint8", scale="0.013", zero="{7}", other=None):
    return f"""({kind}[2,3] q) => ({kind}[2,3] y)
    <float s = {{{scale}}}, {kind} z = {zero},
     float t = {{{other or scale}}}, {kind} u = {zero}>
    {{ w = DequantizeLinear(q, s, z) y = QuantizeLinear(w, t, u) }}"""


@each_of("kind", "uint8", "int8")
@each_of("scale", "0.013", "3e-20", "7e20")
def test_integers_on_one_grid_are_kept(rewrites, kind, scale):
    every = np.arange(256).astype(np.uint8).view(kind)
    rows = [{"q": np.resize(every[i:], (2, 3))} for i in range(0, 256, 6)]
    model = rewrites(between(kind, scale), feeds=rows)
    assert [n.op_type for n in model.graph] == ["Identity"]


def test_all_integers_of_16_bits_come_back(typed, run):
    model = typed(between("uint16", zero="{40000}").replace("2,3", "65536"))
    every = {"q": np.arange(65536).astype(np.uint16)}
    np.testing.assert_array_equal(run(model, every)[0], every["q"])
    assert FoldQdq()(model).modified
    np.testing.assert_array_equal(run(model, every)[0], every["q"])


test_cases = pass_cases("""
=between(other='0.014')
=between(scale='1e-42')
=between().replace('{7}', '{7}', 1).replace('uint8 u = {7}', 'uint8 u = {8}')
(int32[2,3] q) => (uint8[2,3] y) <float s = {0.013}, int32 z = {0}, float t = {0.013}, uint8 u
  = {7}> { w = DequantizeLinear(q, s, z) y = QuantizeLinear(w, t, u) }
""")
