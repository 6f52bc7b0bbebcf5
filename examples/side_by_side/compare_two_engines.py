"""Run one model on two engines, and hold the results together value by value."""

from pathlib import Path

from onnx_passes.bench.runs import Loader, Runner, Settings, compare
from onnx_passes.runtime.engines import engine_from_config
from onnx_passes.runtime.inputs import generate

model = Loader(Path(__file__).parent / "../digits/model.onnx")
engines = [engine_from_config(name) for name in ("onnxruntime", "reference")]
found = compare(
    [Runner(model, engine) for engine in engines],
    generate(model(), seed=0, samples=2),
    settings=Settings(outputs="all"),
)
print(f"{len(found.pairs[0].outputs)} values, {'equal' if found.passed else 'different'}")
