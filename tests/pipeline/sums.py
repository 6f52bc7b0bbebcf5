"""A pass of rules whose applications are right or wrong, as its option says."""

from tests.tables import rule_pass

SCALED = "Mul(Sum(x, y), Constant(value_float=self.factor))"
SumsByRule = rule_pass(
    "SumsByRule",
    "Add(x, y, _outputs=['out']) => "
    f"{SCALED} if out.name in self.at.split(',') else Sum(x, y)",
    at="",
    factor=1.01,
)
