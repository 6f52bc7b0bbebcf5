"""Apply onnx_passes.passes.fusion.flatten_linear_layers:FlattenLinearLayers [15] to the model beside this file.

Exit code 1: it is still wrong, and what is wrong is printed. 0: it is right.
"""

import sys
from pathlib import Path

from onnx_passes.verify.rules.regression import still_wrong

reason = still_wrong('onnx_passes.passes.fusion.flatten_linear_layers:FlattenLinearLayers', 15, Path(__file__).parent, exact=False)
print(reason or "the rule is right on this model")
sys.exit(reason is not None)
