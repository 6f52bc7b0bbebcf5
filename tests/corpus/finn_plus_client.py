"""Run the modules of finn-plus that call onnx_passes, unchanged, in an environment of theirs.

Arguments: a QONNX file, where to write the result, and for images a file of layouts.
"""

import sys
from pathlib import Path

import finn.builder.passes as client
from qonnx.core.modelwrapper import ModelWrapper


class Configuration:
    """What the steps read of FINN's build configuration."""

    layouts_config_file = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    verify_input_npy = verify_expected_output_npy = None
    verify_save_full_context = False
    verification_atol = verification_rtol = 1e-3

    def _resolve_verification_steps(self):
        return []


model = ModelWrapper(sys.argv[1])
for step in (client.prepare, client.inline, client.streamline, client.export):
    model = step(model, Configuration())
model.save(sys.argv[2])
