"""What only a GPU can show. Without one each test skips and says why: ``pytest -m gpu``.

Results belong into docs/maintainers/gpu-results.md, with the machine and the versions.
"""

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_passes.bench.runs import Runner, Settings
from onnx_passes.bench.runs import compare as run_both
from onnx_passes.configs.pipeline_files import default_config, load_config
from onnx_passes.contracts import Tolerance
from onnx_passes.errors import ConfigError, EngineCrashedError, EngineError
from onnx_passes.model.load import deserialize, load_model
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.runtime.engine_base import Level, examine, time_runs
from onnx_passes.runtime.engines import engine_from_config
from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.isolated import end_children
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.tensorrt.bindings import installed_version
from onnx_passes.runtime.tensorrt.cuda import Cuda, Driver, device
from onnx_passes.runtime.tensorrt.engine import layers_of, with_profiles_of, with_profiling
from onnx_passes.verify.evidence import LEVEL, Verdict
from onnx_passes.verify.judge import compare
from tests.tables import each_of, outputs_of, rule_pass

pytestmark = pytest.mark.gpu

HEAD = '<ir_version: 8, opset_import: ["": 17]> g '
PRODUCT = f"{HEAD}(float[2,3] x, float[3,4] w) => (float[2,4] y) {{ [mm] y = MatMul(x, w) }}"
DYNAMIC = f"{HEAD}(float[n,3] x) => (float[n,3] y) {{ a = Neg(x) y = Exp(a) }}"
NON_ZERO = f"{HEAD}(float[2,3] x) => (int64[2,n] y) {{ [find] y = NonZero(x) }}"
RESHAPED = f"{HEAD}(float[n,3] x, int64[2] s) => (float[a,b] y) {{ y = Reshape(x, s) }}"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NEAR = Tolerance(rtol=1e-3, atol=1e-4)
ROOT = Path(__file__).parents[3]


@pytest.fixture(params=["tensorrt-rtx", "tensorrt"])
def package(request):
    if installed_version(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return request.param


@pytest.fixture
def trt(package):
    """Make engines, where the GPU takes what the package builds."""
    found = examine(engine_from_config(package, {}), model(PRODUCT), [product()])
    if found.level is not Level.EXECUTED:
        pytest.skip(f"{package} does not execute on {device()}: {found.reason}")
    return lambda **options: engine_from_config(package, options)


def model(text):
    return ir.from_onnx_text(text)


def product():
    random = np.random.default_rng(7)
    return {
        "x": random.standard_normal((2, 3), np.float32),
        "w": random.standard_normal((3, 4), np.float32),
    }


def rows(count):
    return {"x": np.linspace(-1, 1, 3 * count, dtype=np.float32).reshape(count, 3)}


def truth(made, feeds):
    return outputs_of(OnnxRuntimeEngine(), made, feeds)


def agree(expected, actual, limit=NEAR):
    assert [check for check in compare(expected, actual, limit) if not check.passed] == []


def test_this_gpu_executes_what_is_built_for_it(package):
    """The first thing to find out on a new machine: the reason is in the failure."""
    feeds = product()
    found = examine(engine_from_config(package, {}), model(PRODUCT), [feeds])
    print(package, installed_version(package), device())
    assert (found.level, found.reason) == (Level.EXECUTED, "")
    agree(truth(model(PRODUCT), feeds), found.outputs[0])


def test_every_function_of_the_driver_that_is_called_exists():
    from onnx_passes.runtime.tensorrt import cuda
    from tests.runtime.tensorrt.test_cuda_driver import functions_of

    library = Driver()._library
    for name in functions_of(cuda):
        assert hasattr(library, name), name


def test_memory_goes_to_the_gpu_and_back():
    given = np.arange(1 << 16, dtype=np.int32)
    cuda = Cuda()
    source, target, there = cuda.pinned_memory(), cuda.pinned_memory(), cuda.device_memory()
    try:
        for memory in (source, target, there):
            memory.reserve(given.nbytes)
        ctypes.memmove(source.address, given.ctypes.data, given.nbytes)
        cuda.to_device(there.address, source.address, given.nbytes)
        cuda.to_host(target.address, there.address, given.nbytes)
        cuda.synchronize()
        found = np.frombuffer(ctypes.string_at(target.address, given.nbytes), np.int32)
    finally:
        for memory in (source, target, there):
            memory.close()
        cuda.close()
    np.testing.assert_array_equal(found, given)


def test_dynamic_shapes_are_run_in_every_size_of_the_profile(trt):
    wide = {"x": {"min": [1, 3], "opt": [4, 3], "max": [64, 3]}}
    with trt(profiles=wide).prepare(model(DYNAMIC)) as session:
        for count in (4, 1, 64, 3):
            agree(truth(model(DYNAMIC), rows(count)), session.run(rows(count)))
        with pytest.raises(EngineError, match="no profile of the engine holds x of shape"):
            session.run(rows(65))
        agree(truth(model(DYNAMIC), rows(2)), session.run(rows(2)))


def test_several_profiles_are_chosen_by_shape(trt):
    two = [{"x": {"min": [n, 3], "opt": [n, 3], "max": [4 * n, 3]}} for n in (1, 16)]
    with trt(profiles=two).prepare(model(DYNAMIC)) as session:
        for count in (2, 20, 3, 64):
            agree(truth(model(DYNAMIC), rows(count)), session.run(rows(count)))
        with pytest.raises(EngineError, match="no profile"):
            session.run(rows(8))


def test_inputs_that_decide_shapes_are_run_by_their_values(trt):
    feeds = {"x": rows(4)["x"], "s": np.array([2, 6], np.int64)}
    other = {"x": rows(4)["x"], "s": np.array([6, 2], np.int64)}
    engine = with_profiles_of(trt(), model(RESHAPED), [feeds, other])
    with engine.prepare(model(RESHAPED)) as session:
        for each in (feeds, other):
            agree(truth(model(RESHAPED), each), session.run(each), Tolerance(0.0, 0.0))


def test_shapes_that_the_data_decide(trt):
    found = examine(trt(), model(NON_ZERO))
    if found.level is not Level.BUILT:
        pytest.skip(f"NonZero is not built: {found.reason}")
    with trt().prepare(model(NON_ZERO)) as session:
        for values in ([[0, 1, 0], [2, 0, 3]], [[0] * 3] * 2, [[1] * 3] * 2):
            feeds = {"x": np.array(values, np.float32)}
            agree(truth(model(NON_ZERO), feeds), session.run(feeds), Tolerance(0.0, 0.0))


def test_an_engine_is_saved_loaded_and_run(trt, tmp_path):
    path = tmp_path / "a.engine"
    first = outputs_of(trt(save=str(path)), model(PRODUCT), product())
    with trt(load=str(path)).prepare(model(PRODUCT)) as session:
        agree(first, session.run(product()), Tolerance(0.0, 0.0))


def test_a_crash_in_the_child_is_an_error_and_the_next_run_works(trt, tmp_path, monkeypatch):
    (tmp_path / "crashing_hook.py").write_text(
        "import os\ndef abort(trt, config): os.abort()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    end_children()  # those that live do not look there
    with pytest.raises(EngineCrashedError, match="SIGABRT"):
        trt(config_hook="crashing_hook:abort").prepare(model(PRODUCT)).__enter__()
    with trt().prepare(model(PRODUCT)) as session:
        agree(truth(model(PRODUCT), product()), session.run(product()))


def test_more_memory_than_the_gpu_has_is_told_or_not_needed(trt):
    most = device().memory // 8
    wide = {"x": {"min": [1, 3], "opt": [4, 3], "max": [most, 3]}}
    found = examine(trt(profiles=wide), model(DYNAMIC), [rows(2)])
    assert found.level is Level.EXECUTED or found.reason


@each_of("name", *sorted(path.stem for path in LIGHT.glob("*.onnx")))
def test_light_models_agree_with_onnx_runtime(trt, name):
    made = load_model(LIGHT / f"{name}.onnx").model
    (feeds,) = generate(made, samples=1)
    found = outputs_of(with_profiles_of(trt(), made, [feeds]), made, feeds)
    agree(truth(made, feeds), found, Tolerance(rtol=1e-2, atol=1e-3))


def test_operator_models_agree_with_their_data(trt):
    """A spread over all."""
    from tests.corpus.backend_models import ids, load

    wrong, executed = [], 0
    for name in ids("node")[::25]:
        case = load(name)
        made = deserialize(case.model)
        feeds = [feeds for feeds, _ in case.samples]
        try:
            found = examine(with_profiles_of(trt(), made, feeds), made, feeds)
        except ConfigError:
            continue
        limit = Tolerance(max(case.rtol, 1e-3), max(case.atol, 1e-4))
        for (_, expected), outputs in zip(case.samples, found.outputs, strict=False):
            executed += 1
            checks = compare(expected, outputs, limit)
            wrong += [(name, check.reason) for check in checks if not check.passed]
    assert executed > 10
    assert wrong == []


def test_the_shipped_pipeline_is_verified_on_the_gpu(trt, package):
    made = load_model(ROOT / "examples" / "digits" / "model.onnx").model
    engine = {package: {"when": "each", "require": "executed"}}
    given = json.dumps([{"onnxruntime": {}}, engine])
    done = run_pipeline(made, load_config("tensorrt", [f"engines={given}"]))
    assert done.error is None
    assert done.report.engines[-1].level == "executed"
    changed = [p for p in done.report.passes if p.changed]
    levels = [c for p in changed for c in p.checks if c.kind == LEVEL]
    assert {(c.verdict, c.level) for c in levels} == {(Verdict.PASSED, "executed")}


def test_all_values_of_a_model_are_compared(trt):
    made = load_model(ROOT / "examples" / "digits" / "model.onnx").model
    samples = generate(made, samples=1)
    runners = [Runner(made), Runner(made, trt())]
    found = run_both(runners, samples, settings=Settings(outputs="all"))
    assert found.runs[1].names
    assert found.passed, found.pairs


def test_a_process_that_held_the_gpu_ends_cleanly(trt, package):
    code = (
        "import numpy as np, onnx_ir as ir\n"
        "from onnx_passes.runtime.engines import engine_from_config\n"
        f"e = engine_from_config({package!r}, {{'isolate': False}})\n"
        f"m = ir.from_onnx_text({PRODUCT!r})\n"
        "with e.prepare(m) as s:\n"
        "    x, w = np.ones((2, 3), 'f4'), np.ones((3, 4), 'f4')\n"
        "    print(s.run({'x': x, 'w': w})['y'].sum())\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout.strip()) == (0, "24.0"), done.stderr


def test_layers_are_timed(trt):
    engine = with_profiling(trt())
    with engine.prepare(model(PRODUCT)) as session:
        assert len(time_runs(session, product(), 2, 5)) == 5
        layers = layers_of(session)
    assert layers
    assert any(layer.seconds for layer in layers)


def test_a_rewrite_that_is_wrong_on_the_gpu_is_named_by_its_region(trt, package):
    rule_pass("WrongOnGpu", "Exp(x) => Mul(Exp(x), Constant(value_float=1.01))")

    text = f"{HEAD}(float[2,3] x) => (float[2,3] y) {{ a = Neg(x) b = Exp(a) y = Neg(b) }}"
    given = [{"onnxruntime": {"when": "end"}}, {package: {"when": "each"}}]
    settings = [f"engines={json.dumps(given)}", "reproducers=false"]
    done = run_pipeline(model(text), default_config(settings, ["wrong-on-gpu"]))
    (blame,) = done.report.passes[0].blame
    assert blame.how.startswith("by its own error on that engine")


def test_each_rewrite_is_executed_on_the_gpu_by_its_region(trt, package):
    rule_pass("SumsOnGpu", "Add(x, y) => Sum(x, y)")

    blocks = "a = Add(x, x) b = Exp(a) c = Add(b, x) d = Tanh(c) y = Add(d, x)"
    text = f"{HEAD}(float[2,3] x) => (float[2,3] y) {{ {blocks} }}"
    given = [{"onnxruntime": {"when": "end"}}, {package: {"when": "each"}}]
    settings = [f"engines={json.dumps(given)}", "reproducers=false"]
    report = run_pipeline(model(text), default_config(settings, ["sums-on-gpu"])).report
    (check,) = [c for c in report.passes[0].checks if c.scope == "region"]
    assert check.reason == "sums-on-gpu: 3 of 3 rewrites executed by region, in 2 builds"
    assert report.exit_code == 0
