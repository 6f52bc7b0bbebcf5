import pytest

from onnx_passes.passes.streamline.simplify_booleans import SimplifyBooleans

HEAD = "(bool[N] a, bool[N] b) => (bool[N] y) "


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("c = Not(a) d = Not(b) y = And(c, d)", ["Or", "Not"]),
        ("c = Not(a) d = Not(b) y = Or(c, d)", ["And", "Not"]),
        ("c = Not(a) d = Not(b) y = Xor(c, d)", ["Xor"]),
        ("c = And(a, b) d = Not(c) y = Not(d)", ["And", "Identity"]),
    ],
)
def test_fires(body, kinds, rewrites):
    model = rewrites(SimplifyBooleans(), HEAD + "{ " + body + " }")
    assert [node.op_type for node in model.graph] == kinds


@pytest.mark.parametrize("body", ["c = Not(a) d = Not(b) e = And(c, d) y = Or(e, c)"])
def test_leaves_what_something_else_reads_alone(body, leaves_alone):
    leaves_alone(SimplifyBooleans(), HEAD + "{ " + body + " }")
