from tests.tables import each_of


def test_fires(rewrites, text):
    model = rewrites(
        text("""(float[N] x) => (float[N] y) <float[3] t = {3, 1, 2}, float[3] w = {1, -1, 2}>
            { y = o.MultiThreshold(x, t, w) }""")
    )
    node = next(n for n in model.graph if n.op_type == "MultiThreshold")
    found = [v.producer().attributes["value"].as_tensor().numpy() for v in node.inputs[1:]]
    assert [array.tolist() for array in found] == [[1, 2, 3], [-1, 2, 1]]


@each_of("thresholds, weight", ("1, 2, 3", "1"), ("3, 1, 2", "0.1"), ("3, 1, 2", "1e8"))
def test_leaves_alone(thresholds, weight, leaves_alone, text):
    leaves_alone(
        text(f"""(float[N] x) => (float[N] y)
            <float[3] t = {{{thresholds}}}, float w = {{{weight}}}>
            {{ y = o.MultiThreshold(x, t, w) }}""")
    )
