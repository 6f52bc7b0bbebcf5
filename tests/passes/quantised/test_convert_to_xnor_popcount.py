from onnx_passes import testing
from onnx_passes.passes.patterns import WhyNot, asking
from onnx_passes.passes.quantised.convert_to_xnor_popcount import ConvertToXnorPopcount
from tests.tables import each_of, kinds

GRAPH = """(float[N,3] x) => (float[N,2] y) <float[{steps}] t = {{{thresholds}}},
float v = {{{weight}}}, float a = {{{term}}}, float[3,2] w = {{{matrix}}}>
{{ b = o.MultiThreshold(x, t, v) c = Add(b, a) y = MatMul(c, w) }}"""
GIVEN = {
    "steps": 1,
    "thresholds": "0.5",
    "weight": 2,
    "term": -1,
    "matrix": "1, -1, -1, -1, 1, 1",
}


def test_fires(rewrites, text):
    # A product of 3 factors: 0 to 3 of them are equal.
    model = rewrites(text(GRAPH.format(**GIVEN)))
    assert kinds(model) == ["MultiThreshold", "XnorPopcountMatMul", "Mul", "Add"]


@each_of(
    "other, reason",
    ({"steps": 2, "thresholds": "0.5, 1"}, "it has 2 thresholds in a row, not one"),
    ({"weight": 1}, "what the thresholds make is not -1 or 1"),
    ({"term": 1}, "what the thresholds make is not -1 or 1"),
    ({"matrix": "1, -1, -1, -1, 1, 2"}, "the matrix has other elements than -1 and 1"),
)
def test_leaves_alone_and_says_why(other, reason, text):
    model = testing.parse(text(GRAPH.format(**{**GIVEN, **other})))
    testing.assert_leaves_alone(ConvertToXnorPopcount(), model)
    question = WhyNot.of("convert-to-xnor-popcount")
    with asking(question):
        ConvertToXnorPopcount()(model)
    (line,) = question.lines()
    assert reason in line
