"""Rules do in a branch, and in a function, what they do in the main graph."""

from functools import cache
from itertools import chain

import onnx_ir as ir
from onnx import ValueInfoProto, helper

from onnx_passes.certifying.rewrite_rule import rules_of
from onnx_passes.certifying.template_models import instances
from onnx_passes.model.copy import copy_model
from onnx_passes.passes.annotation.shape_inference import infer_shapes
from onnx_passes.passes.base import RewriteRulePass, RewriteRuleSetPass, is_shipped
from onnx_passes.passes.registry import all_passes
from tests.tables import each_of

NOT_MADE = {"eliminate-nested-concat", "lower-global-max-pool", "lower-max-pool"}
"""No random model is one on which they fire."""
WITHOUT_TYPES = """
absorb-layouts convert-from-qcdq convert-to-qcdq convert-to-xnor-popcount decompose-thresholds
eliminate-constant-where eliminate-double-reshape eliminate-double-squeeze
eliminate-double-transpose eliminate-dropout eliminate-identity eliminate-negated-condition
eliminate-noop-arithmetic eliminate-noop-expand eliminate-noop-pad eliminate-noop-reshape
eliminate-noop-slice eliminate-noop-transpose eliminate-repeated-unary eliminate-single-operand
eliminate-squeeze-unsqueeze export-qonnx extract-weight-scales factorize
fuse-batch-normalization fuse-conv-affine fuse-hard-sigmoid fuse-leaky-relu fuse-matmul-scale
fuse-min-max fuse-mish fuse-pad fuse-reduce-squeeze fuse-shape-slice fuse-silu fuse-thresholds
fuse-transpose-gemm fuse-transpose-reduce gather-terms import-qonnx inline-qonnx merge-clips
merge-constant-arithmetic merge-products merge-slices simplify-booleans simplify-lattices
sink-scales sort-thresholds unify-comparisons
"""
"""Passes that need no types, which a function has not: they depend on the call."""
RULES = [
    cls
    for cls in all_passes()
    if is_shipped(cls) and issubclass(cls, RewriteRulePass | RewriteRuleSetPass)
    if cls.name not in NOT_MADE
]


def in_a_branch(model):
    """Return a model whose nodes are in both branches of an If."""
    proto = ir.to_proto(model)
    graph = proto.graph
    outputs = [ValueInfoProto.FromString(v.SerializeToString()) for v in graph.output]
    for value in outputs:
        value.name += "_out"
    body = helper.make_graph(graph.node, "body", [], graph.output, [], None, graph.value_info)
    names = [value.name for value in outputs]
    node = helper.make_node("If", ["chosen"], names, then_branch=body, else_branch=body)
    inputs = [*graph.input, helper.make_tensor_value_info("chosen", 9, [])]
    proto.graph.CopyFrom(helper.make_graph([node], "g", inputs, outputs, graph.initializer))
    return ir.from_proto(proto)


def in_a_function(model):
    """Return a model whose nodes are in a function that the graph calls."""
    proto = ir.to_proto(model)
    graph = proto.graph
    constants = {w.name: w for w in graph.initializer}
    nodes = [helper.make_node("Constant", [], [n], value=w) for n, w in constants.items()]
    inputs = [value for value in graph.input if value.name not in constants]
    names = [[value.name for value in ports] for ports in (inputs, graph.output)]
    own = helper.make_opsetid("local", 1)
    proto.functions.append(
        helper.make_function("local", "f", *names, [*nodes, *graph.node], proto.opset_import)
    )
    call = helper.make_node("f", *names, domain="local")
    proto.opset_import.append(own)
    proto.graph.CopyFrom(helper.make_graph([call], "g", inputs, graph.output))
    return ir.from_proto(proto)


class Kept:
    """What an iterator yields, to be read again."""

    def __init__(self, made):
        self.made, self.kept = made, []

    def __iter__(self):
        yield from self.kept
        for each in self.made:
            self.kept.append(each)
            yield each


@cache
def drawn(cls):
    """Return models on which each rule of a pass fires: drawing them is most of the time."""
    return [Kept(instances(rule, limit=2, attempts=200)) for rule in rules_of(cls)]


def fires(cls, move):
    """Whether a pass changes some model on which it fires, once it is moved."""
    changed = []
    for model in chain.from_iterable(drawn(cls)):
        infer_shapes(model)
        if cls(**cls.example)(copy_model(model)).modified:
            changed.append(cls(**cls.example)(move(model)).modified)
        if any(changed):
            return True
    assert changed, f"{cls.name} fires on no model: is it one of NOT_MADE?"
    return False


@each_of("cls", *RULES, ids=lambda cls: cls.name)
def test_a_branch_is_rewritten_as_the_main_graph_is_and_a_function_if_that_needs_no_types(cls):
    assert fires(cls, in_a_branch)
    without_types = cls.name in WITHOUT_TYPES.split()
    if without_types or cls.name.startswith("lower-"):
        assert fires(cls, in_a_function) == without_types
