from onnx_passes.contracts import Equality, Metric, Tolerance, weakest
from tests.tables import each_of

EXACT, OUTPUTS, CLOSE = (Equality(),), (Equality("outputs"),), (Tolerance(),)


@each_of(
    "parts, joint",
    ([EXACT, EXACT], EXACT),
    ([EXACT, OUTPUTS], OUTPUTS),
    ([EXACT, CLOSE], CLOSE),
    ([OUTPUTS, CLOSE], CLOSE),
    ([(Tolerance(rtol=1e-3),), (Tolerance(1e-2, 1e-6),)], (Tolerance(1e-2, 1e-6),)),
    ([EXACT, (Metric(("cosine",)),)], (Metric(("cosine",)),)),
    ([(Metric(("a",)),), (Metric(("b", "a")),)], (Metric(("a", "b")),)),
    ([(Metric(("a",)),), (Metric(),)], (Metric(),)),
    ([EXACT, (Tolerance(), Metric(("a",)))], (Tolerance(), Metric(("a",)))),
    ([CLOSE, (), EXACT], ()),
    ([], (Equality(),)),
)
def test_passes_promise_together_what_each_of_them_promises(parts, joint):
    assert weakest(parts) == joint
