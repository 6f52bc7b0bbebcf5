"""Modules of users that tests write."""

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
