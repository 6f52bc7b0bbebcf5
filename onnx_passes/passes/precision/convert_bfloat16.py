"""Convert what is computed in float32 to bfloat16."""

from typing import ClassVar

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.passes.precision._half_conversion import ConvertsToHalf


@passes.verify.metric
@passes.register()
class ConvertBfloat16(ConvertsToHalf):
    """Convert what is computed in float32 to bfloat16.

    Before: ``y = MatMul(x, w)`` in float32
    After:  ``h = Cast <to = BFLOAT16> (x) m = MatMul(h, wb) y = Cast <to = FLOAT> (m)``

    Neighbours share one Cast of a value, and have none between them. Movements such as
    Transpose are converted with their neighbours, so that Casts around them go.

    Sound because every value has the type that its readers expect; numbers are rounded to 8
    bits, which the metrics of the pipeline judge. Values over 3.39e38 or that vanish are found
    among the constants and, on inputs, among all values; their nodes stay in float32. So does
    what is computed of integers over 256 and constants alone, such as positions and angles.

    Nodes in bodies of If, Loop and Scan are converted as well; what crosses the end of a body
    keeps its type. Calls of functions are replaced by their bodies, but for those that define
    an operator, such as a quantiser of QONNX.

    Leaves alone: nodes with other bodies; operators without bfloat16; operators that ONNX
    Runtime has no kernel for, or would fuse and crash on, unless ``missing`` says otherwise.
    The report names what stays, and why.
    """

    half: ClassVar[ir.DataType] = ir.DataType.BFLOAT16
