import onnx_ir as ir
import pytest

from onnx_passes.ops.randomness import may_draw


@pytest.mark.parametrize(
    ("domain", "op_type", "draws"),
    [
        ("", "Bernoulli", True),
        ("", "RandomUniformLike", True),
        ("", "Dropout", True),
        ("", "Relu", False),
        ("com.microsoft", "BitmaskDropout", True),
        ("com.microsoft", "Gelu", False),
        ("my", "Bernoulli", False),
    ],
)
def test_what_draws_is_known_by_domain_and_name(domain, op_type, draws):
    assert may_draw(ir.Node(domain, op_type, [])) is draws
