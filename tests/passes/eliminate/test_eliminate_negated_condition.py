from onnx_passes.passes.eliminate.eliminate_negated_condition import (
    EliminateNegatedCondition,
)


def test_fires(rewrites):
    rewrites(
        EliminateNegatedCondition(),
        """(bool[2] c, float[3,2] x, float[1] y) => (float[3,2] z)
        { n = Not(c) z = Where(n, x, y) }""",
        """(bool[2] c, float[3,2] x, float[1] y) => (float[3,2] z) { z = Where(c, y, x) }""",
    )


def test_two_negations_leave_the_order(rewrites):
    rewrites(
        EliminateNegatedCondition(),
        """(bool[2] c, float[2] x, float[2] y) => (float[2] z)
        { n = Not(c) m = Not(n) z = Where(m, x, y) }""",
        """(bool[2] c, float[2] x, float[2] y) => (float[2] z) { z = Where(c, x, y) }""",
    )


def test_a_negation_that_is_read_elsewhere_is_left(leaves_alone):
    leaves_alone(
        EliminateNegatedCondition(),
        """(bool[2] c, float[2] x, float[2] y) => (float[2] z, bool[2] n)
        { n = Not(c) z = Where(n, x, y) }""",
    )
