"""Move factors, terms and transpositions until nothing moves any more."""

from onnx_passes import passes
from onnx_passes.passes.compose import ComposePass


@passes.verify.tolerance
@passes.register()
class Streamline(ComposePass):
    """Move factors, terms and transpositions until nothing moves any more.

    Before: scales, biases, transpositions and reshapes wherever the network has them
    After:  each as far towards the outputs as it goes, merged with others of its kind

    Runs ``factorize``, ``unbroadcast``, the groups ``algebraic``, ``reorder``, ``eliminate``
    and ``cleanup``, and folds constants, until the model stops changing.

    Sound because each of these passes is; each has its own check.

    Leaves alone: what each of them does. Weights that are listed as inputs with a default
    become constants.
    """

    interface_changes = frozenset({"inputs"})

    tested_on = ("any", "qonnx")

    __passes__ = (
        "remove-initializers-from-inputs",
        "factorize",
        "unbroadcast",
        "algebraic",
        "reorder",
        "shape-inference",
        "fold-constants",
        "eliminate",
        "cleanup",
    )
    __exhaustive__ = True
