import pytest

from onnx_passes.passes.folding.copy_half_constants import CopyHalfConstants
from tests.tables import cases

TYPES = "(float16[9] x, bool c) => (float16[9] y)"
NUMBERS = "{1, 2, 3, 4, 5, 6, 7, 8, 9}"
SEVERAL = f"{TYPES} <float16[9] w = {NUMBERS}>"
TWICE = "t = Add(x, w) y = Mul(t, w)"


def with_copies(*names):
    held = ", ".join(f"float16[9] {name} = {NUMBERS}" for name in ("w", *names))
    return f"{TYPES} <{held}>"


def branch(inner):
    return f"""y = If (c) <
        then_branch = th () => (float16[9] p) {{ {inner} }},
        else_branch = el () => (float16[9] q) {{ q = Identity(x) }}>"""


@pytest.mark.parametrize(
    ("before", "after"),
    cases("""
two: =f'{SEVERAL} {{ {TWICE} }}' | =f"{with_copies('v')} {{ t = Add(x, w) y = Mul(t, v) }}"
three: =f'{SEVERAL} {{ t = Add(x, w) u = Mul(t, w) y = Sub(u, w) }}'
  | =f"{with_copies('v', 'u1')} {{ t = Add(x, w) u = Mul(t, v) y = Sub(u, u1) }}"
outside-of-a-body: =f"{SEVERAL} {{ s = Sub(x, w) {branch('p = Add(s, w)')} }}"
  | =f"{with_copies('v')} {{ s = Sub(x, v) {branch('p = Add(s, w)')} }}"
"""),
)
def test_fires(before, after, rewrites):
    rewrites(before, after)


def test_the_limit_leaves_the_largest(rewrites):
    more = "float16[2,9] z = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}"
    body = "a = Add(x, z) b = Mul(a, z) t = Add(b, w) y = Mul(t, {})"
    head = "(float16[9] x) => (float16[2,9] y)"
    before = f"{head} <{more}, float16[9] w = {NUMBERS}> {{ {body.format('w')} }}"
    after = (
        f"{head} <{more}, float16[9] w = {NUMBERS}, float16[9] v = {NUMBERS}>"
        f" {{ {body.format('v')} }}"
    )
    rewrites(CopyHalfConstants(growth_limit=18), before, after)


@pytest.mark.parametrize(
    "text",
    cases("""
one-reader: =f'{SEVERAL} {{ y = Add(x, w) }}'
few-elements: =f'{TYPES} <float16[1] w = {{1}}> {{ {TWICE} }}'
single-precision: =f'(float[9] x) => (float[9] y) <float[9] w = {NUMBERS}> {{ {TWICE} }}'
default-of-an-input: =f'(float16[9] x, float16[9] w) => (float16[9] y)
  <float16[9] w = {NUMBERS}> {{ {TWICE} }}'
output: =f'(float16[9] x) => (float16[9] y, float16[9] w) <float16[9] w = {NUMBERS}>
  {{ {TWICE} }}'
in-a-body: =f"{SEVERAL} {{ {branch('r = Add(x, w) p = Mul(r, w)')} }}"
"""),
)
def test_leaves_alone(text, leaves_alone):
    leaves_alone(text)
