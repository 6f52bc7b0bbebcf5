"""finn-plus 1.6.1 runs on this package as it did on the seed system."""

import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from benchmarks.environments import clean_environment, environment
from onnx_passes.ops.bodies.operator_bodies import QONNX
from onnx_passes.passes.constants import numbers_of
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from tests.corpus.seed_networks import SEED, network
from tests.tables import each_of

ROOT = Path(__file__).parents[2]
NETWORKS = ROOT / "examples" / "quantised_digits"
NEEDED = ("qonnx==1.0.0", "mashumaro[yaml]", "mip", "termcolor", "pyyaml")
LAYOUTS = "inp: [{assumes: [N, C, H, W], perm: [0, 2, 3, 1]}]\nout: [null]\n"


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The Python of an environment with finn-plus, qonnx and this package."""
    folder = tmp_path_factory.mktemp("finn")
    try:
        made = environment(folder / "venv", (*NEEDED, str(ROOT)))
    except SystemExit as error:
        pytest.skip(f"not installed, so not run: {error}")
    # Its own requirements pin an onnx that this package has left behind.
    command = [made, "-m", "pip", "install", "--quiet", "--no-deps", "finn-plus==1.6.1"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"finn-plus is not installed, so not run: {done.stderr[-300:]}")
    return made


def scores(model):
    images = np.load(NETWORKS.parent / "digits" / "images.npy")
    with OnnxRuntimeEngine(prepacking=False).prepare(model) as session:
        return next(iter(session.run({"image": images}).values()))


def frontend(python, source, folder, *, images):
    """Run its front end, in which every pass is one of this package."""
    target = folder / "out.onnx"
    command = [python, ROOT / "tests" / "corpus" / "finn_plus_client.py", source, target]
    if images:
        (folder / "layouts.yaml").write_text(LAYOUTS)
        command.append(folder / "layouts.yaml")
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment())
    assert done.returncode == 0, done.stderr
    return ir.load(target)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@each_of("name", *SEED)
def test_its_frontend_gives_what_the_seed_system_gave(name, python, tmp_path):
    onnx.save(network(name), tmp_path / "in.onnx")
    result = frontend(python, tmp_path / "in.onnx", tmp_path, images=name != "mlp")
    found = Counter()
    for node in result.graph:
        given = {key: a.value for key, a in node.attributes.items()}
        if node.op_type == "MultiThreshold":
            found[given["out_dtype"]] += 1
        elif node.op_type == "MatMul":
            weights = numbers_of(node.inputs[1])
            found["MatMul"] += 1
            found["integer weights"] += np.array_equal(weights, np.rint(weights))
        elif node.op_type == "Im2Col" and {"dilations", "kernel_size", "stride"} <= set(given):
            found["Im2Col"] += 1
    assert found == SEED[name]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@each_of("name, thresholds", ("mlp_1w1a", 4), ("mlp_2w2a", 4), ("cnn_w4a4", 6))
def test_its_frontend_makes_thresholds_that_compute_it(name, thresholds, python, tmp_path):
    source = NETWORKS / f"{name}.onnx"
    result = frontend(python, source, tmp_path, images=name.startswith("cnn"))
    kinds = Counter((node.domain, node.op_type) for node in result.graph)
    assert kinds[QONNX, "MultiThreshold"] == thresholds
    assert not {"Where", "GreaterOrEqual"} & {kind for _, kind in kinds}
    np.testing.assert_allclose(scores(result), scores(ir.load(source)), rtol=1e-4, atol=1e-4)
