CONVERT = 'o.LayoutConverter<assumes = ["{}", "{}", "{}"], perm = [2, 0, 1]>'


def test_before_and_behind(rewrites, text):
    model = rewrites(
        text(
            "(float[2,3,4] x) => (float[A,B,C] y) { t = Transpose<perm = [1, 0, 2]>(x) u = "
            + CONVERT.format("C", "N", "W")
            + "(t) v = Transpose<perm = [0, 2, 1]>(u) y = Exp(v) }"
        )
    )
    assert [node.op_type for node in model.graph] == ["LayoutConverter", "Exp"]
    node = model.graph[0]
    assert list(node.attributes["assumes"].as_strings()) == ["N", "C", "W"]


def test_leaves_a_transpose_without_permutation_alone(leaves_alone, text):
    leaves_alone(
        text(
            "(float[2,3,4] x) => (float[A,B,C] y) { t = Transpose(x) y = "
            + CONVERT.format("N", "C", "W")
            + "(t) }"
        )
    )
