from tests.tables import each_of

GRAPH = """(float[2,3,4] x, float[3] s, float[3] b, float[3] m, float[3] v) => (float[2,3,4] y)
{{ y = BatchNormalization<{}>(x, s, b, m, v) }}"""


def test_fires(rewrites):
    model = rewrites(GRAPH.format("epsilon = 0.01"))
    kinds = [n.op_type for n in model.graph if n.op_type in ("Sub", "Div", "Mul", "Add")]
    assert kinds[-4:] == ["Sub", "Div", "Mul", "Add"] or kinds[-3:] == ["Div", "Mul", "Add"]


@each_of("attributes", "training_mode = 1")
def test_leaves_alone(attributes, leaves_alone):
    leaves_alone(GRAPH.format(attributes).replace("y = Batch", "y, rm, rv = Batch"))
