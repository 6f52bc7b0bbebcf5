"""Build a TensorRT engine through hooks. It is not run: nothing here executes TensorRT."""

from pathlib import Path

from onnx_passes.bench.runs import Loader, Runner, compare
from onnx_passes.runtime.engines import engine_from_config
from onnx_passes.runtime.inputs import generate

model = Loader(Path(__file__).parent / "../digits/model.onnx")
options = {"network_hook": "hooks:name_layers", "config_hook": "hooks:spend_little"}
folder = str(Path(__file__).parent)
engine = engine_from_config("tensorrt-rtx", options, folders=[folder])
found = compare([Runner(model, engine)], generate(model(), samples=1))
print(found.runs[0].state, found.runs[0].reason, sep=": ")
