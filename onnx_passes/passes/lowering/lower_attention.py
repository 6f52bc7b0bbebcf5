"""Lower Attention to MatMul and Softmax."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.lowering._lowering_pass import FunctionPass


@passes.verify.tolerance
@passes.register("lower")
class LowerAttention(FunctionPass):
    """Lower Attention to MatMul and Softmax.

    Before: ``Attention(q, k, v, mask, past_key, past_value)``
    After:  ``MatMul(Softmax(MatMul(s * q, Transpose(s * k)) + bias), v)`` with ``s`` the root
            of ``scale``, between Reshapes and Transposes that part and join the heads

    All its forms: inputs of rank 3 and 4, groups of heads that share keys, masks of numbers or
    booleans, ``is_causal`` and ``softcap``. Also past and present keys and values, lengths
    without padding, and the products as an output. It is the definition that onnx gives;
    shapes are computed by the model, and ``fold-constants`` computes ahead what it can of
    these.

    Sound because the definition is part of ONNX. The contract is a tolerance: engines compute
    attention with kernels of their own.

    Leaves alone: nodes whose products are read after the mask has been added, since engines do
    not agree on whether what is masked is minus infinity or the lowest number; nodes whose
    types are not known; bodies of functions.
    """

    def wanted(self, node: ir.Node) -> bool:
        return node.op_type == "Attention" and not _shows_masked_products(node)


def _shows_masked_products(node: ir.Node) -> bool:
    if len(node.outputs) < 4 or node.attributes.get_int("qk_matmul_output_mode", 0) not in (
        1,
        2,
    ):
        return False
    products = node.outputs[3]
    return bool(products.uses()) or products.is_graph_output()
