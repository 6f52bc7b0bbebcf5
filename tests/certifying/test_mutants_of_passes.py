"""Passes whose rules fire by hints alone: each with a fault put in is refuted."""

import pytest

from onnx_passes.certifying.rewrite_rule import assumes_finite, rules_of
from onnx_passes.certifying.rule_fuzzing import fuzz_rule
from onnx_passes.passes.registry import collect


class _Meddling:
    """An ``op`` that builds one operator otherwise than it should."""

    def __init__(self, op, operator, change):
        self._op, self._operator, self._change = op, operator, change

    def __getattr__(self, name):
        build = getattr(self._op, name)
        if name != self._operator:
            return build
        return lambda *inputs, **attributes: build(*self._change(inputs), **attributes)


def _swapped(inputs):
    return inputs[0], inputs[2], inputs[1], *inputs[3:]


class _Attributes(_Meddling):
    """The same, for attributes."""

    def __getattr__(self, name):
        build = getattr(self._op, name)
        if name != self._operator:
            return build
        return lambda *inputs, **attributes: build(*inputs, **self._change(attributes))


def _set(**values):
    return lambda attributes: {**attributes, **values}


MUTANTS = {
    "sine and cosine swapped": ("fuse-rotary-embedding", 0, _Meddling, _swapped, ""),
    "the scale forgotten": ("fuse-attention", 1, _Attributes, _set(scale=3.0), ""),
    "the mask forgotten": ("fuse-attention", 0, _Meddling, lambda x: x[:3], ""),
    "another slope": ("fuse-silu", 4, _Attributes, _set(alpha=1.0), "Swish"),
    "another epsilon": ("fuse-rms-normalization", 0, _Attributes, _set(epsilon=0.5), ""),
    "one group": ("fuse-group-normalization", 0, _Attributes, _set(num_groups=1), ""),
    "other axes": ("fuse-reshaped-transpose", 0, _Attributes, _set(perm=[0, 2, 1, 3]), ""),
    "a dimension less": ("fuse-shape-slice", 3, _Attributes, _set(start=1), "Shape"),
}
OPERATORS = {
    "fuse-rotary-embedding": "RotaryEmbedding",
    "fuse-attention": "Attention",
    "fuse-rms-normalization": "RMSNormalization",
    "fuse-group-normalization": "GroupNormalization",
    "fuse-reshaped-transpose": "Transpose",
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_in_a_pass_that_fires_by_hints_is_found(name):
    pass_name, index, meddler, change, operator = MUTANTS[name]
    (cls,) = collect([pass_name])
    rule = rules_of(cls)[index]
    replacement = rule._replacement_pattern
    right = replacement._function

    def wrong(op, *args, **kwargs):
        made = meddler(op, operator or OPERATORS[pass_name], change)
        return right(made, *args, **kwargs)

    replacement._function = wrong
    tested = fuzz_rule(rule, seconds=600, models=60, finite=assumes_finite(cls))
    assert tested.verdict == "refuted"
