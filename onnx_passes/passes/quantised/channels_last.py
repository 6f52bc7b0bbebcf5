"""Convert convolutions, pooling and what is between them to channels-last data."""

from onnx_passes import passes
from onnx_passes.passes.compose import ComposePass


@passes.verify.tolerance
@passes.register()
class ChannelsLast(ComposePass):
    """Convert convolutions, pooling and what is between them to channels-last data.

    Before: ``MaxPool(onnx_passes.ops.MultiThreshold(Conv(x, w), t, 1))``
    After:  ``Transpose(channels_last.MaxPool(onnx_passes.ops.MultiThreshold(
            channels_last.Conv(Transpose(x), w'), t', 1)))``

    Runs ``convert-to-channels-last``, ``sink-transposes`` and ``move-transposes-to-weights``,
    folds weights and removes Transposes that undo each other, until the model stops changing.
    Those that are left are at inputs and outputs, and where a change of shape or a product
    needs channels first.
    Inputs and outputs themselves become channels-last with ``convert-layout``.

    Sound because each of these passes is; each has its own check. The contract is a tolerance:
    a product behind a Flatten may sum up in another order.

    Leaves alone: what each of them does.
    """

    tested_on = ("turn", "qonnx")

    __passes__ = (
        "convert-to-channels-last",
        "shape-inference",
        "fold-constants",
        "sink-transposes",
        "shape-inference",
        "move-transposes-to-weights",
        "eliminate-double-transpose",
        "eliminate-noop-transpose",
        "eliminate-transpose-before-reshape",
        "eliminate-transpose-after-reshape",
        "fold-constants",
        "cleanup",
    )
    __exhaustive__ = True
