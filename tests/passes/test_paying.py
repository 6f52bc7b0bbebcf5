import pytest

from onnx_passes.passes import registry
from onnx_passes.passes.paying import may_not_pay


def test_a_rule_counts_by_the_pass_that_it_is_of():
    (fuse,) = registry.lookup("fuse-all")
    assert may_not_pay(fuse(), "fuse-attention[factor-on-key]")
    assert not may_not_pay(fuse(), "fuse-gelu[0]")
    assert not may_not_pay(fuse(), "no-such-pass")


@pytest.mark.parametrize(
    ("name", "measured"),
    [("sum-before-normalization", True), ("move-scale-to-matmul", True), ("fuse-gelu", False)],
)
def test_a_pass_says_whether_its_rewrites_are_measured(name, measured):
    (cls,) = registry.lookup(name)
    assert may_not_pay(cls(), cls.name) == measured
