from tests.tables import each_of

HEAD = "(float[N] x, float[N] u) => (bool[N] y) "


@each_of("suffix", "", "OrEqual")
def test_fires(suffix, rewrites):
    (node,) = rewrites(HEAD + f"{{ y = Less{suffix}(x, u) }}").graph
    assert node.op_type == f"Greater{suffix}"
    assert [value.name for value in node.inputs] == ["u", "x"]


def test_leaves_alone(leaves_alone):
    leaves_alone(HEAD + "{ y = Greater(x, u) }")
