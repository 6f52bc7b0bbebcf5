import pytest

BODY = """b (int64 i, bool k, float[2] p) => (bool k2, float[2] r, float[2,3] s)
  <float[2,3] w = {1, 2, 3, 4, 5, 6}> { k2 = Identity(k) r = Exp(p) s = Identity(w) }"""


def loop(count, condition, body=BODY, results="t, z"):
    return f"""(int64 n, bool c, float[2] x) => (float[2] y, float[?,2,3] z)
      <int64 zero = {{0}}, int64 below = {{-3}}, int64 one = {{1}}, bool no = {{0}}> {{
      {results} = Loop({count}, {condition}, x) < body = {body} > y = Neg(t) }}"""


@pytest.mark.parametrize(
    ("count", "condition"), [("zero", "c"), ("below", "c"), ("n", "no"), ("", "no")]
)
def test_one_that_never_runs(count, condition, rewrites):
    model = rewrites(loop(count, condition))
    assert {node.op_type for node in model.graph} <= {"Constant", "Identity", "Neg"}
    assert [value.name for value in model.graph.outputs] == ["y", "z"]


@pytest.mark.parametrize(("count", "condition"), [("one", "c"), ("n", "c"), ("", "c")])
def test_leaves_one_that_may_run_alone(count, condition, leaves_alone):
    leaves_alone(loop(count, condition))


def test_leaves_collected_results_of_unknown_size_alone(leaves_alone):
    body = BODY.replace("float[2,3] s)", "float[?,3] s)").replace(
        "Identity(w)", "Compress<axis = 0>(w, q)"
    )
    body = body.replace("{ k2", "{ q = Greater(p, p) k2")
    leaves_alone(loop("zero", "c", body))


def test_what_starts_it_becomes_an_output(rewrites):
    text = """(bool c, float[2] x) => (float[2] y) <int64 zero = {0}> {
      y = Loop(zero, c, x) < body = b (int64 i, bool k, float[2] p) =>
        (bool k2, float[2] r) { k2 = Identity(k) r = Exp(p) } > }"""
    model = rewrites(text)
    assert [node.op_type for node in model.graph] == ["Identity"]
    assert [value.name for value in model.graph.inputs] == ["c", "x"]
