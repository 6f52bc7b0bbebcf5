from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.runtime.engine_base import Engine


def parse(text: str, opset: int = 21, ir_version: int = 10, **weights) -> ir.Model:
    """A model from ONNX text; graph inputs named in ``weights`` become initializers."""
    header = f'<ir_version: {ir_version}, opset_import: ["" : {opset}, "my" : 1]>'
    model = ir.from_onnx_text(header + text)
    inputs = {value.name: value for value in model.graph.inputs}
    for name, data in weights.items():
        value = inputs[name]
        value.const_value = data if isinstance(data, ir.TensorProtocol) else ir.tensor(data)
        model.graph.inputs.remove(value)
        model.graph.register_initializer(value)
    return model


def run(engine: Engine, model: ir.Model, **feeds):
    with engine.prepare(model) as session:
        return session.run(
            {k: np.asarray(v) if v is not None else v for k, v in feeds.items()}
        )


@pytest.fixture(name="parse")
def _parse():
    return parse


@pytest.fixture(name="run")
def _run():
    return run
