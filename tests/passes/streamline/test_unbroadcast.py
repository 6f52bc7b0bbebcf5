from tests.tables import each_of

GRAPH = "(float[{}] x) => (float[{}] y) <float[2,3] c = {{{}}}> {{ y = {} }}"


@each_of("values, shape", ("1,1,1,2,2,2", (2, 1)), ("1,2,3,1,2,3", (3,)), ("4,4,4,4,4,4", ()))
@each_of("call", "Add(x, c)", "Div(c, x)")
def test_fires(values, shape, call, rewrites):
    model = rewrites(GRAPH.format("2,3", "2,3", values, call))
    constant = next(n for n in model.graph if n.op_type == "Constant")
    assert tuple(constant.attributes["value"].as_tensor().shape.numpy()) == shape


@each_of("dims, values", ("1,1", "4,4,4,4,4,4"), ("2,3", "1,2,3,4,5,6"))
def test_leaves_alone(dims, values, leaves_alone):
    leaves_alone(GRAPH.format(dims, "2,3", values, "Add(x, c)"))
