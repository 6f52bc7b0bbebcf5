"""Modules of users that tests write, and reports that they read."""

import json
from pathlib import Path

RULES = """\
from onnx_passes import passes
from onnx_passes.passes.base import RewriteRulePass, Transformation
"""


def rule_pass(name, before, after, values="x", contract="equality", check="True"):
    """Return a module with a pass of one rule, as text."""
    return f'''{RULES}
@passes.verify.{contract}
@passes.register()
class {name}(Transformation, RewriteRulePass):
    """Before: one thing. After: another."""
    def pattern(self, op, {values}): return {before}
    def check(self, _, {values}): return {check}
    def rewrite(self, op, {values}): return {after}
'''


BREAK_ADDS = rule_pass("BreakAdds", "op.Add(x, y)", "op.Add(x, x)", "x, y", check="x != y")


def read_json(path):
    return json.loads(Path(path).read_text())


SEED = """\
imports: [ ]
reference:
  inp: [ inp.npy ]
  out: [ out.npy ]
model_checker:
  full_check: true
shape_inference: { }
onnxruntime:
  providers:
    - - CPUExecutionProvider
      - { }
  full_context_dump: false
verify:
  tolerance:
    atol: 1.0e-6
  metrics:
    max_abs_error: [ 0.0, 0.01 ]
logging:
  verbose: false
  checkpoint: false
  keep_intermediates: false
exhaustive: false
"""
"""A pipeline as the demonstrations of the seed system have it."""
