"""Lower RotaryEmbedding to products of halves."""

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.lowering._lowering_pass import FunctionPass


@passes.verify.tolerance
@passes.register("lower")
class LowerRotaryEmbedding(FunctionPass):
    """Lower RotaryEmbedding to products of halves.

    Before: ``RotaryEmbedding(x, cos_cache, sin_cache, position_ids)``
    After:  ``Concat(cos * a - sin * b, sin * a + cos * b)``, where ``a`` and ``b`` are the
            halves of ``x``, or its even and odd elements, and ``cos`` and ``sin`` are gathered
            from the caches

    All its forms: inputs of rank 3 and 4, ``interleaved``, partial rotation, positions given
    or not. It is the definition that onnx gives; shapes are computed by the model, and
    ``fold-constants`` computes ahead what it can of these.

    Sound because the definition is part of ONNX. The contract is a tolerance: engines compute
    the products with kernels of their own.

    Leaves alone: nodes whose types are not known; bodies of functions.
    """

    def wanted(self, node: ir.Node) -> bool:
        return node.op_type == "RotaryEmbedding"
