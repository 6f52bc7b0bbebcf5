import pytest

from onnx_passes.testing import parse
from tests.tables import each_of, inferred

INPUTS = (
    "float[B,4,S,8] q, float[B,2,S,8] k, float[B,2,S,6] v, float[B,2,P,8] pk, "
    "float[B,2,P,6] pv, float[S,T] m"
)
RESULTS = "float[B,4,S,6] y, float[B,2,T,8] nk, float[B,2,T,6] nv"
BODY = """nk = Concat<axis = 2>(pk, k) nv = Concat<axis = -2>(pv, v)
  y = Attention<scale = 0.5>(q, nk, nv, m)"""


def model(body, *, inputs=INPUTS, results=RESULTS, opset=23):
    return inferred(f"""<ir_version: 10, opset_import: ["" : {opset}]>
      g ({inputs}) => ({results}) {{ {body} }}""")


@each_of("results", RESULTS, RESULTS.partition(", ")[0])
@each_of("mask", ", m", "")
def test_fires(results, mask, rewrites):
    inputs = INPUTS if mask else INPUTS.rpartition(", ")[0]
    after = f"y, nk, nv = Attention<scale = 0.5>(q, k, v, {mask[2:]}, pk, pv)"
    before = model(BODY.replace(", m", mask), inputs=inputs, results=results)
    rewrites(before, model(after, inputs=inputs, results=results))


@each_of(
    "old, new",
    pytest.param("<scale = 0.5>", "<is_causal = 1>", id="causal"),
    pytest.param("<axis = 2>", "<axis = 1>", id="heads-joined"),
    pytest.param("y =", "s = Shape(nk) y =", id="read-elsewhere"),
    pytest.param("(q, nk, nv, m)", "(q, nk, nv, m, pk, pv)", id="has-a-cache"),
)
def test_leaves_alone(old, new, leaves_alone):
    results = RESULTS.partition(", ")[0] + (", int64[4] s" if "Shape" in new else "")
    text = f"""<ir_version: 10, opset_import: ["" : 23]>
      g ({INPUTS}) => ({results}) {{ {BODY.replace(old, new)} }}"""
    leaves_alone(inferred(text))


def test_leaves_a_cache_of_another_batch(leaves_alone):
    inputs = INPUTS.replace("float[B,2,P,8]", "float[A,2,P,8]")
    made = parse(f"""<ir_version: 10, opset_import: ["" : 23]>
      g ({inputs}) => (float[B,4,S,6] y) {{ {BODY} }}""")
    leaves_alone(made)
