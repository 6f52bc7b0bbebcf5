from onnx_passes.passes import registry
from onnx_passes.passes.paying import MAY_NOT_PAY, may_not_pay


def test_names_are_those_of_passes():
    assert {cls.name for cls in registry.all_passes()} >= MAY_NOT_PAY


def test_a_rule_counts_by_the_pass_that_it_is_of():
    (fuse,) = registry.lookup("fuse-all")
    assert may_not_pay(fuse(), "fuse-attention[2]")
    assert not may_not_pay(fuse(), "fuse-gelu[0]")
