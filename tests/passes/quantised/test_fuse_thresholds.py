from tests.tables import each_of

GRAPH = """(float[N] x, float[N] u) => (float[N] y)
<float[2] s = {{1, 2}}, float[1] t = {{0.5}}, float v = {{{}}}, float w = {{2}}>
{{ a = o.MultiThreshold(x, s, v) b = o.MultiThreshold({}, t, w) y = {}(a, b) }}"""


@each_of("joint", "Add", "Sub")
def test_fires(joint, rewrites, text):
    model = rewrites(text(GRAPH.format(1, "x", joint)))
    assert [n.op_type for n in model.graph if n.op_type != "Constant"] == ["MultiThreshold"]


@each_of("weight, second", (0.1, "x"), (1, "u"))
def test_leaves_alone(weight, second, leaves_alone, text):
    leaves_alone(text(GRAPH.format(weight, second, "Add")))
