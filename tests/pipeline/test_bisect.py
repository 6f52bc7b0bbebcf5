"""Bisection: the first bad pass and rewrite, in few runs, or no answer and the reason."""

import math

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes import passes
from onnx_passes.configs.pipeline_files import default_config
from onnx_passes.errors import PassError
from onnx_passes.passes.base import RewriteRulePass, Transformation
from onnx_passes.pipeline.bisect import bisect, judge_by_score
from tests.tables import edit_pass

HEAD = '<ir_version: 10, opset_import: ["": 21]> g (float[4] x) => (float[4] y) '


def chain(length=32, bad=20, factor=1.5):
    """Build a chain of additions of weights, one of them marked by its value."""
    wrong = bad if isinstance(bad, tuple) else (bad,)
    weights = [f"float w{i} = {{{0.25 if i in wrong else 0.5}}}" for i in range(length)]
    body = " ".join(f"v{i + 1} = Add(v{i}, w{i})" for i in range(length))
    text = f"""{HEAD} <{", ".join(weights)}, float k = {{{factor}}}> {{ v0 = Identity(x) {body}
        u = Identity(v{length}) y = Mul(u, k) }}"""
    return ir.from_proto(onnx.parser.parse_model(text))


@passes.verify.equality
@passes.register()
class BisectSwap(Transformation, RewriteRulePass):
    """Write each addition as a sum, and lose the weight of 0.25."""

    def pattern(self, op, x, w):
        return op.Add(x, w)

    def rewrite(self, op, x, w):
        lost = w.const_value is not None and w.const_value.numpy() == np.float32(0.25)
        return op.Identity(x) if lost else op.Sum(w, x)


@edit_pass(passes.verify.tolerance())
def bisect_double(model):
    """Multiply by twice of k, with no rule."""
    scale(model, 2)


@edit_pass(passes.verify.tolerance())
def bisect_nudge(model):
    """Multiply by a little more than k: the rounding of a correct rewrite."""
    scale(model, 1 + 2e-7)


@edit_pass(passes.verify.tolerance())
def bisect_creep(model):
    """Multiply by more than k, yet too little for one pass to stand out."""
    scale(model, 1 + 1e-6)


@passes.verify.equality
@passes.register()
class BisectRaise(Transformation):
    """Raise."""

    def call(self, model):
        raise ValueError("broken")


def scale(model, factor):
    k = model.graph.initializers["k"]
    k.const_value = ir.tensor(np.float32(k.const_value.numpy() * factor), name="k")


def find(model, *steps, given=()):
    config = default_config(["verify=false", *given], steps)
    return bisect(model, config, judge_by_score(model, config))


def test_every_bad_rewrite_is_named_each_in_a_logarithmic_number_of_runs():
    finding = find(chain(bad=(3, 20, 31)), "eliminate-identity", "bisect-swap", "bisect-nudge")
    assert [rewrite.nodes for rewrite in finding.culprits] == [
        ["v4 = Add(v3, w3)"],
        ["v21 = Add(v20, w20)"],
        ["v32 = Add(v31, w31)"],
    ]
    assert [rewrite.number for rewrite in finding.culprits] == [6, 23, 34]
    assert finding.runs <= 3 * (1 + 2 + math.log2(32)) + 1


def test_a_bad_pass_without_rules_is_named_by_itself():
    finding = find(chain(bad=None), "bisect-swap", "bisect-double", "eliminate-identity")
    assert (finding.done.name, finding.rewrite) == ("bisect-double", None)
    assert finding.bad == pytest.approx(1)


def test_an_error_that_grows_little_by_little_blames_nobody():
    finding = find(chain(bad=None), *["bisect-creep"] * 40)
    assert finding.outcome == "undecided"
    assert finding.final > 10 * finding.noise
    assert finding.bad < 10 * finding.good


def test_rounding_before_the_fault_is_not_blamed():
    finding = find(chain(), "bisect-nudge", "bisect-swap")
    assert (finding.outcome, finding.done.name) == ("found", "bisect-swap")


def test_the_original_stays_as_it_is_and_no_reproducer_is_left(tmp_path):
    model = chain()
    text = str(model)
    find(model, "bisect-swap", given=[f"reproducers={tmp_path}"])
    assert str(model) == text
    assert list(tmp_path.iterdir()) == []


def test_a_pass_that_raises_is_the_answer():
    with pytest.raises(PassError, match="'bisect-raise' raised ValueError: broken"):
        find(chain(), "bisect-swap", "bisect-raise")


def test_a_user_limit_on_rewrites_is_kept():
    assert find(chain(), "bisect-swap", given=["limits.rewrites=20"]).outcome == "sound"
    assert find(chain(), "bisect-swap", given=["limits.rewrites=21"]).rewrite.number == 21
