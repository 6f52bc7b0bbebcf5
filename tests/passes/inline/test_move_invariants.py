from tests.tables import pass_cases

INPUTS = "(float[2,2] x, float[2,2] w) => (float[2,2] y)"
CONSTANTS = "n = Constant<value = int64 {7}>() t = Constant<value = bool {1}>()"


def loop(body, count="n"):
    return f"""y = Loop({count}, t, x) <body = b (int64 i, bool c, float[2,2] s)
      => (bool c, float[2,2] o) <float[2] k = {{1, 2}}, float[2,2] e> {{ {body} }}>"""


def test_fires(rewrites):
    rewrites(
        f"{INPUTS} {{ {CONSTANTS} {loop('e = Exp(w) p = MatMul(e, e) o = Add(s, p)')} }}",
        f"{INPUTS} {{ {CONSTANTS} e = Exp(w) p = MatMul(e, e) {loop('o = Add(s, p)')} }}",
    )


def test_takes_constants_of_the_body_along(rewrites):
    text = f"{INPUTS} {{ {CONSTANTS} {loop('e = Mul(w, k) q = Mul(s, k) o = Add(q, e)')} }}"
    graph = rewrites(text).graph
    assert [node.op_type for node in graph] == ["Constant", "Constant", "Mul", "Loop"]


def test_moves_what_a_scan_computes_from_outside(rewrites):
    text = """(float[2] x, float[5,2] q, float[2] w) => (float[2] y, float[5,2] z) {
      y, z = Scan<num_scan_inputs = 1, body = b (float[2] s, float[2] e)
        => (float[2] o, float[2] p) { k = Exp(w) o = Add(s, k) p = Mul(e, k) }>(x, q) }"""
    graph = rewrites(text).graph
    assert [node.op_type for node in graph] == ["Exp", "Scan"]


def test_a_body_that_may_never_run_gives_what_cannot_fail(rewrites):
    text = f"""(int64 m, float[2,2] x, float[2,2] w) => (float[2,2] y) {{
      {CONSTANTS} {loop("e = Exp(w) p = MatMul(e, e) o = Add(s, p)", "m")} }}"""
    graph = rewrites(text).graph
    assert [node.op_type for node in graph] == ["Constant", "Constant", "Exp", "Loop"]


test_cases = pass_cases(
    """
carried: e = Exp(s) o = Add(e, w)
result: o = Exp(w)
random: e = RandomNormalLike(w) o = Add(s, e)
""",
    lambda body: f"{INPUTS} {{ {CONSTANTS} {loop(body)} }}",
)
