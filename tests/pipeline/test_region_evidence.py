"""What vouches for parts whose recorded values show nothing."""

import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.model.walk import all_nodes
from onnx_passes.passes.base import Transformation
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.verify.evidence import Kind

HEAD = '<ir_version: 10, opset_import: ["" : 20]> g '
LOOP = """(float x) => (float y)
    <int64 n = {20}, bool c = {1}, float z = {0}, float k = {10}> {
    y = Loop(n, c, z) <body = b (int64 i, bool ci, float s) => (bool co, float so) {
        so = Add(s, x) co = Less(so, k) }> }"""
RARE = """(float[4] x) => (bool y) <float k = {1000}> {
    m = ReduceMax<keepdims = 0>(x) y = Less(m, k) }"""


class Compare(Transformation):
    """Write a comparison as another one, with its operands turned if that is asked for."""

    to: str = "Greater"
    turned: bool = True

    def call(self, model):
        (node,) = (n for n in all_nodes(model) if n.op_type == "Less")
        node.op_type, (first, second) = self.to, node.inputs
        if self.turned:
            node.replace_input_with(0, second)
            node.replace_input_with(1, first)
        return ir.passes.PassResult(model, True)


@pytest.fixture(autouse=True)
def own_passes(own_registry):
    passes.verify.equality(passes.register()(Compare))


def run(text, **options):
    config = config_from_data({"passes": [{Compare.name: options}], "reproducers": False})
    return run_pipeline(ir.from_onnx_text(HEAD + text), config).report


def test_a_loop_that_ends_one_turn_later_at_a_tie_was_verified():
    report = run(LOOP, to="LessOrEqual", turned=False)
    assert "co differs on drawn values, which no sample has" in report.preconditions[0]
    assert not run(LOOP).preconditions


def test_a_comparison_that_is_true_on_each_sample_was_not_verified():
    report = run(RARE)
    assert not report.not_verified
    assert [one.kind for one in report.passes[0].evidence] == [Kind.EXECUTED]


def test_such_a_comparison_that_differs_at_a_tie_is_not_verified_or_fails():
    report = run(RARE, to="LessOrEqual", turned=False)
    assert report.not_verified or report.exit_code
