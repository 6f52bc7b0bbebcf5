"""Which rewrite loses the support of a compiler, found by the region of each."""

import json
import re

import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.passes.base import RewriteRulePass, Transformation
from onnx_passes.pipeline import compilers, lost_support
from onnx_passes.pipeline.region_parts import Part, told
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.runtime.engine_base import Finding, Level
from onnx_passes.runtime.tensorrt import engine as tensorrt

BLOCKS = " ".join(f"s{i} = Add(t{i}, b) t{i + 1} = Relu(s{i})" for i in range(8))
TEXT = f"""<ir_version: 10, opset_import: ["": 20]>
g (float[n,2] a, float[2] b) => (float[n,2] y)
{{ t0 = Neg(a) {BLOCKS} y = Abs(t8) }}"""


@passes.verify.equality
@passes.register()
class SumOrSequence(Transformation, RewriteRulePass):
    """Write additions as sums, and take some of them through a sequence."""

    at: str = ""

    def pattern(self, op, x, y):
        return op.Add(x, y, _outputs=["out"])

    def rewrite(self, op, x, y, out):
        total = op.Sum(x, y)
        if out.name not in self.at.split(","):
            return total
        return op.SequenceAt(op.SequenceConstruct(total), op.Constant(value_int=0))


@passes.verify.equality
@passes.register()
class SequenceInBulk(Transformation):
    """Take a value through a sequence, without a rule."""

    def call(self, model):
        node = model.graph[-1]
        made = ir.node("SequenceConstruct", [node.inputs[0]])
        zero = ir.node("Constant", [], {"value_int": ir.AttrInt64("value_int", 0)})
        taken = ir.node("SequenceAt", [made.outputs[0], zero.outputs[0]])
        for one, name in ((made, "q"), (zero, "z"), (taken, "r")):
            one.outputs[0].name = name
        model.graph.insert_before(node, [made, zero, taken])
        node.replace_input_with(0, taken.outputs[0])
        return ir.passes.PassResult(model, modified=True)


class Compiler:
    """Takes everything but sequences, and keeps what it was asked."""

    def __init__(self, names=True):
        self.asked, self.names = [], names

    def __call__(self, engine, model, samples=()):
        self.asked.append(model)
        bad = [n for n in model.graph if n.op_type.startswith("Sequence")]
        if not bad:
            return Finding(Level.BUILT)
        if not self.names:
            return Finding(Level.PARSED, "the builder does not compile it: it gives no reason")
        reasons = (f"node {n.name or n.outputs[0].name!r} ({n.op_type}): no" for n in bad[:3])
        return Finding(Level.REJECTED, "; ".join(reasons))


@pytest.fixture
def compiler(monkeypatch):
    made = Compiler()
    monkeypatch.setattr(compilers, "examine", made)
    monkeypatch.setattr(lost_support, "examine", made)
    monkeypatch.setattr(tensorrt, "installed_version", lambda _: "1.7")
    return made


def go(*steps, when="each"):
    rtx = {"tensorrt-rtx": {"when": when, "compute_capabilities": [8.9]}}
    settings = [f"engines={json.dumps([{'onnxruntime': {}}, rtx])}", "reproducers=false"]
    return run_pipeline(ir.from_onnx_text(TEXT), default_config(settings, steps)).report


def whole_models(compiler):
    return sum(any(v.name == "y" for v in model.graph.outputs) for model in compiler.asked)


@pytest.mark.parametrize("names", [True, False])
@pytest.mark.parametrize("at", ["s5", "s2,s6"])
def test_rewrites_are_named_by_their_regions_and_put_to_the_test_in_one_build(
    compiler, names, at
):
    compiler.names = names
    report = go("sum-or-sequence{at=" + json.dumps(at) + "}")
    (failed,) = report.passes
    named = [r for r in failed.rewrites if r.number in failed.culprits]
    assert [r.replaced[0][0] for r in named] == at.split(",")
    level = "rejected, node '" if names else "parsed, the builder does not compile it"
    assert all(b.how.startswith(f"by its region alone: {level}") for b in failed.blame)
    assert all(any("SequenceConstruct" in node for node in b.new_nodes) for b in failed.blame)
    assert whole_models(compiler) == 3  # the original, the result, and the pass without them


def test_what_the_compiler_named_in_the_whole_model_is_built_first(compiler):
    report = go("sum-or-sequence{at=s5}")
    assert len(report.passes[0].culprits) == 1
    # The original and the result, the region named and what it replaced, the pass without it.
    assert len(compiler.asked) == 5


def test_a_failure_at_the_end_is_traced_to_the_rewrites_of_their_passes(compiler):
    report = go("sum-or-sequence{at=s1}", "eliminate-identity", when="end")
    (blame,) = report.blame
    assert (blame.step, blame.rule) == (0, "sum-or-sequence")
    assert blame.how.startswith("by its region alone: rejected, node '")


def test_a_pass_without_rules_is_named_by_building_between_passes(compiler):
    report = go("sum-or-sequence", "sequence-in-bulk", when="end")
    (blame,) = report.blame
    assert (blame.step, blame.name, blame.rule) == (1, "sequence-in-bulk", None)
    assert blame.how == "the first after which the model is not compiled"


def test_the_layer_is_told_by_the_compilers_own_name_beside_the_node():
    part = Part(ir.from_onnx_text(TEXT), [], {"p3.1": "boxes (NonMaxSuppression)"})
    found = Finding(Level.PARSED, "layerImpls.empty() failed. p3.1_0 has no runners")
    assert told(found, part) == (
        "parsed, layerImpls.empty() failed. boxes_0 has no runners "
        "(its layer 'boxes_0' is of node boxes (NonMaxSuppression))"
    )


@pytest.mark.tensorrt
def test_nvidias_compiler_names_the_layer_of_a_node_that_it_parses_and_does_not_build():
    from benchmarks.lost_support import row

    found = row("suppressed", "resnet50")
    assert (found.level, found.named) == ("parsed", "right")
    assert re.search(r"its layer '\S+_0' is of node \S+ \(NonMaxSuppression\)", found.how)
