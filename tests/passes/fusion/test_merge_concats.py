import pytest

from onnx_passes.passes.fusion.merge_concats import MergeConcats

HEAD = "(float[2,N] a, float[2,M] b, float[2,K] c) => (float[?,?] y)"


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        ("t = Concat<axis = 1>(a, b) y = Concat<axis = 1>(t, c)", "a, b, c"),
        ("t = Concat<axis = 1>(a, b) y = Concat<axis = 1>(c, t, a)", "c, a, b, a"),
        (
            """t = Concat<axis = 1>(a, b) u = Concat<axis = 1>(c, t)
            v = Concat<axis = 1>(b) y = Concat<axis = 1>(u, v)""",
            "c, a, b, b",
        ),
    ],
)
def test_fires(body, parts, rewrites):
    after = f"{HEAD} {{ y = Concat<axis = 1>({parts}) }}"
    rewrites(MergeConcats(), f"{HEAD} {{ {body} }}", after)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("t = Concat<axis = 1>(a, b) y = Concat<axis = 0>(t, t)", id="axis"),
        pytest.param("t = Concat<axis = -1>(a, b) y = Concat<axis = 1>(t, c)", id="number"),
        pytest.param("t = Concat<axis = 1>(a, b) y = Concat<axis = 1>(t, t)", id="twice"),
        pytest.param(
            "t = Concat<axis = 1>(a, b) u = Relu(t) y = Concat<axis = 1>(t, u)", id="read"
        ),
    ],
)
def test_leaves_alone(body, leaves_alone):
    leaves_alone(MergeConcats(), f"{HEAD} {{ {body} }}")


def test_leaves_outputs_alone(leaves_alone):
    head = HEAD.replace("y)", "y, float[?,?] t)")
    text = f"{head} {{ t = Concat<axis = 1>(a, b) y = Concat<axis = 1>(t, c) }}"
    leaves_alone(MergeConcats(), text)


def test_leaves_what_a_branch_reads_from_around_alone(leaves_alone):
    text = """(float[2] a, bool p) => (float[?] y) {
      t = Concat<axis = 0>(a, a)
      y = If(p) <then_branch = g () => (float[?] u) { u = Concat<axis = 0>(t, a) },
                 else_branch = h () => (float[?] v) { v = Relu(a) }> }"""
    leaves_alone(MergeConcats(), text)


def test_looks_into_branches(rewrites):
    text = """(float[2] a, bool p) => (float[?] y) {
      y = If(p) <then_branch = g () => (float[?] u)
                 { t = Concat<axis = 0>(a, a) u = Concat<axis = 0>(t, a) },
                 else_branch = h () => (float[?] v) { v = Relu(a) }> }"""
    (choice,) = rewrites(MergeConcats(), text).graph
    (node,) = choice.attributes["then_branch"].as_graph()
    assert len(node.inputs) == 3
