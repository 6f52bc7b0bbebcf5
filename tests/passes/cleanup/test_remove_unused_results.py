import pytest

from tests.tables import cases

CHOICE = """(bool c, float[2] x) => (float[2] y) {{ {results} = If(c) <
  then_branch = g () => (float[2] a, float[2] b) {{ a = Exp(x) b = Neg(a) }},
  else_branch = h () => (float[2] d, float[2] e) {{ d = Abs(x) e = Sqrt(d) }}> {rest} }}"""


def loop(results, body, inputs="x, x", rest=""):
    return f"""(int64 n, bool c, float[2] x) => (float[2] y) {{
      {results} = Loop(n, c, {inputs}) < body = {body} > {rest} }}"""


@pytest.mark.parametrize(
    ("results", "left"), [("y, z", ["Exp"]), ("z, y", ["Exp", "Neg"])], ids=["last", "first"]
)
def test_of_an_if(results, left, rewrites):
    model = rewrites(CHOICE.format(results=results, rest=""))
    (node,) = model.graph
    assert [value.name for value in node.outputs] == ["y"]
    assert [len(a.as_graph().outputs) for a in node.attributes.values()] == [1, 1]
    assert {"Exp", *left} <= {n.op_type for n in node.attributes["then_branch"].as_graph()}


def test_of_a_loop_with_what_only_they_need(rewrites):
    body = """b (int64 i, bool k, float[2] p, float[2] q) =>
      (bool k2, float[2] r, float[2] s) { k2 = Identity(k) r = Add(p, x) s = Exp(q) }"""
    model = rewrites(loop("y, z", body))
    (node,) = model.graph
    inner = node.attributes["body"].as_graph()
    assert [n.op_type for n in inner] == ["Identity", "Add"]
    assert [v.name for v in inner.inputs] == ["i", "k", "p"]
    assert [v.name for v in node.inputs] == ["n", "c", "x"]


def test_a_scanned_one(rewrites):
    body = """b (int64 i, bool k, float[2] p) => (bool k2, float[2] r, float[2] s) {
      k2 = Identity(k) r = Add(p, x) s = Exp(p) }"""
    model = rewrites(loop("y, z", body, inputs="x"))
    assert [n.op_type for n in model.graph[0].attributes["body"].as_graph()] == [
        "Identity",
        "Add",
    ]


@pytest.mark.parametrize(
    "body",
    cases("""
another-result: k2 = Identity(k) r = Add(p, q) s = Exp(q)
the-condition: m = ReduceMax<keepdims = 0>(q) k2 = Less(m, m) r = Add(p, x) s = Exp(q)
a-branch: k2 = Identity(k) s = Exp(q) r = If(k) < then_branch = t () => (float[2] u) {
  u = Neg(q) }, else_branch = e () => (float[2] w) { w = Neg(p) }>
"""),
)
def test_leaves_alone_what_decides_about(body, leaves_alone):
    head = "b (int64 i, bool k, float[2] p, float[2] q) => (bool k2, float[2] r, float[2] s)"
    leaves_alone(loop("y, z", f"{head} {{ {body} }}"))
