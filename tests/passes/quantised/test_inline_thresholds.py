from tests.tables import each_of

GRAPH = """(float[N,2] x) => (float[N,2] y) <float[2,3] t = {1, 2, 3, -1, 0, 1}, float w = {1}>
{ y = o.MultiThreshold(x, t, w) }"""


def test_fires(rewrites, text):
    model = rewrites(text(GRAPH))
    assert {"GreaterOrEqual", "ReduceSum"} <= {n.op_type for n in model.graph}


@each_of("opset", 11, 12)
def test_leaves_old_opsets_alone(opset, leaves_alone, text):
    leaves_alone(text(GRAPH).replace('"" : 20', f'"" : {opset}'))
