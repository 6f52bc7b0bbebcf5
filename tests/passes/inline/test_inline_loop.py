import pytest

HEAD = "(float[2] x) => (float[2] y)"
STEP = "b (int64 i, bool c, float[2] s) => (bool d, float[2] o) { d = Identity(c) o = Exp(s) }"


def loop(count, body=STEP):
    return f"""{{ n = Constant<value = int64 {{{count}}}>() t = Constant<value = bool {{1}}>()
      y = Loop(n, t, x) <body = {body}> }}"""


@pytest.mark.parametrize(("count", "after"), [(1, "y = Exp(x)"), (2, "s = Exp(x) y = Exp(s)")])
def test_fires(count, after, rewrites):
    graph = rewrites(f"{HEAD} {loop(count)}").graph
    left = [node.op_type for node in graph if node.op_type not in ("Constant", "Identity")]
    assert left == ["Exp"] * count


def test_collects_what_each_iteration_gives(rewrites):
    text = """(float[2] x, float[2] w) => (float[2] y, float[3,2] z) {
      n = Constant<value = int64 {3}>() t = Constant<value = bool {1}>()
      y, z = Loop(n, t, x) <body = b (int64 i, bool c, float[2] s)
        => (bool c, float[2] o, float[2] e) <float[2] k = {1, 2}> {
        f = Cast<to = 1>(i) p = Mul(f, k) q = Add(p, w) o = Add(s, q) e = Neg(s) }> }"""
    graph = rewrites(text).graph
    assert "Loop" not in [node.op_type for node in graph]
    assert [value.name for value in graph.outputs] == ["y", "z"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{HEAD} {loop(17)}", id="too-many"),
        pytest.param(f"{HEAD} {loop(2, STEP.replace('Identity', 'Not'))}", id="may-end"),
        pytest.param(
            f"(int64 n, float[2] x) => (float[2] y) {{ y = Loop(n, , x) <body = {STEP}> }}",
            id="unknown-count",
        ),
    ],
)
def test_leaves_alone(text, leaves_alone):
    leaves_alone(text)
