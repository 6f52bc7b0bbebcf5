"""Apply passes to a copy of a model, and save what both models give as JSON."""

from pathlib import Path

from onnx_passes.bench.runs import Loader, Runner, Settings, compare, save_results
from onnx_passes.passes.eliminate.eliminate_identity import EliminateIdentity
from onnx_passes.runtime.inputs import generate

model = Loader(Path(__file__).parent / "../digits/model.onnx")()
shorter = EliminateIdentity()(model.clone()).model
keep = Settings(keep=True, hashes=True)
runners = [Runner(model), Runner(shorter, name="without Identity")]
found = compare(runners, generate(model, samples=1), settings=keep)
save_results(found, Path("results.json"))
print(found.pairs[0].candidate, "agrees" if found.passed else "differs")
