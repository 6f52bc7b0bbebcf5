import pytest

from onnx_passes.errors import OptionError
from onnx_passes.passes.analysis.peak_memory import PeakMemory, peak_of
from onnx_passes.testing import parse


def peak(body, signature="(float[8] x) => (float[8] y)", **dims):
    return peak_of(parse(f"{signature} {{ {body} }}"), dims)


def test_a_skip_connection_stays_alive():
    found = peak("a = Exp(x) [mid] b = Neg(a) c = Abs(b) y = Add(a, c)")
    assert found.bytes == 3 * 32
    assert set(found.alive) == {"a", "b", "c"}


def test_the_widest_moment_wins():
    signature = "(float[8] x, float[4,8] z) => (float[8] y, float[4,8] t)"
    found = peak("a = Exp(x) [wide] t = Add(z, a) y = Neg(a)", signature)
    assert found.node == "Add 'wide'"
    assert found.bytes == 32 + 2 * 128


def test_views_share_the_memory_of_their_input():
    signature = "(float[2,4] x) => (float[2,4] y) <int64[2] s = {2, 4}>"
    shared = peak("a = Exp(x) f = Flatten(a) g = Identity(f) y = Reshape(g, s)", signature)
    assert shared.bytes == 2 * 32


def test_a_body_comes_on_top_and_captured_values_stay():
    body = """a = Exp(x) y = If(c) <
        then_branch = t () => (float[8] p) { q = Neg(a) r = Abs(q) p = Add(q, r) },
        else_branch = e () => (float[8] s) { s = Neg(a) }>"""
    found = peak(body, "(bool c, float[8] x) => (float[8] y)")
    # c, a, y, and q, r, p of the larger branch; x was read before.
    assert found.bytes == 1 + 5 * 32


def test_dynamic_dimensions():
    signature = "(float[N] x) => (float[N] y)"
    assert peak("y = Exp(x)", signature, N=10).bytes == 80
    unsized = peak("y = Exp(x)", signature)
    assert unsized.bytes == 0
    assert unsized.unknown == ("x", "y")
    with pytest.raises(OptionError, match="peak-memory: no input has a dimension 'M'"):
        peak("y = Exp(x)", signature, M=1)


def test_the_report_says_where():
    pass_ = PeakMemory()
    assert not pass_(parse("(float[8] x) => (float[8] y) { [only] y = Exp(x) }")).modified
    assert "64 B at once at Exp 'only'" in pass_.context.notes[0]
    assert pass_.context.analysis("peak-memory").bytes == 64
