"""Replace quantised layers by thresholds, and streamline what is left."""

from onnx_passes import passes
from onnx_passes.passes.compose import ComposePass


@passes.verify.tolerance
@passes.register()
class StreamlineThresholds(ComposePass):
    """Replace quantised layers by thresholds, and streamline what is left.

    Before: chains of monotone operators that end in a quantiser
    After:  MultiThreshold, with its factor and term moved behind what reads them

    Thresholds are found first, on the original chain, so that no rounding of a moved factor
    decides on which side of a threshold a number is. They take in what reaches them later.

    Sound because each of these passes is; each has its own check.

    Leaves alone: what each of them does. Weights that are listed as inputs with a default
    become constants.
    """

    interface_changes = frozenset({"inputs"})

    tested_on = ("any", "qonnx")

    __passes__ = (
        "remove-initializers-from-inputs",
        "shape-inference",
        "infer-thresholds",
        "move-signs-to-weights",
        "streamline",
        "infer-thresholds",
        "move-signs-to-weights",
        "gather-terms",
        "fuse-thresholds",
        "sort-thresholds",
        "shape-inference",
        "fold-constants",
        "cleanup",
    )
