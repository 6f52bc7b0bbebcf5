"""``onnx-passes reduce``: checks of every kind, what is written, and bad input."""

import io
import json
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest

from onnx_passes.bench.reducing.candidates import CandidateStore
from onnx_passes.verify.saved import write_samples
from tests.tables import each_of

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
MODEL = DIGITS / "model.onnx"
ONNX_PASSES = [sys.executable, "-m", "onnx_passes"]
PAIR = """\
import sys, onnx

def fails(path):
    made = {}
    for node in onnx.load(path).graph.node:
        if node.op_type == "Conv" and made.get(node.input[0]) == "Relu":
            print("Relu before Conv")
            return True
        made.update(dict.fromkeys(node.output, node.op_type))
    return False

if __name__ == "__main__":
    sys.exit(fails(sys.argv[1]))
"""


def operators(path):
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.fixture
def pair(tmp_path):
    path = tmp_path / "pair.py"
    path.write_text(PAIR)
    return f"{sys.executable} {path} {{model}}"


def test_a_command_reduces_digits_to_a_pair(cli, pair, tmp_path):
    told = cli(
        *("reduce", MODEL, "-o", "small.onnx", "--check", pair, "--json", "--no-shrink"),
        *("--min-good", "good.onnx", "--artifacts", "kept", "--replay", "answers.json"),
    )
    assert told.code == 0, told.err
    found = json.loads(told.out)
    assert (found["before"], found["after"]) == (26, 2)
    assert operators("small.onnx") == ["Relu", "Conv"]
    assert operators("good.onnx") != ["Relu", "Conv"]
    kept = sorted(path.name for path in Path("kept").glob("*/*.onnx"))
    assert len(kept) == found["checks"] == len(told.err.splitlines())
    assert "Relu before Conv" in Path("kept/bad/0001-26-nodes.log").read_text()
    again = cli(
        *("reduce", MODEL, "-o", "again.onnx", "--check", pair, "--json", "--no-shrink"),
        *("--replay", "answers.json"),
    )
    assert json.loads(again.out)["checks"] == 0
    assert operators("again.onnx") == ["Relu", "Conv"]


def test_a_function_reduces_nodes_and_then_dimensions(cli, pair, tmp_path):
    told = cli("reduce", MODEL, "-o", "small.onnx", "--check-function", "pair:fails", "--json")
    assert told.code == 0, told.err
    model = onnx.load("small.onnx")
    onnx.checker.check_model(model, full_check=True)
    [dims] = [v.type.tensor_type.shape.dim for v in model.graph.input]
    assert [d.dim_value for d in dims] == [1, 1, 1, 1]
    assert "shrunk from" in json.loads(told.out)["notes"][0]


def test_golden_values_find_the_weight_that_is_off(cli, tmp_path):
    """The steps of Polygraphy's guide: golden outputs, merge, bisect, linear, inspect."""
    compare = ("compare", MODEL, "--generate", "samples=1", "--outputs", "all")
    assert cli(*compare, "--save-inputs", "in.json", "--save-outputs", "golden.json").code == 0
    assert cli("data", "merge", "in.json", "golden.json", "-o", "layerwise.json").code == 0
    model = onnx.load(MODEL)
    [weight] = [t for t in model.graph.initializer if t.name == "conv2.weight"]
    array = onnx.numpy_helper.to_array(weight) * np.float32(1.1)
    weight.CopyFrom(onnx.numpy_helper.from_array(array, weight.name))
    onnx.save(model, "wrong.onnx")
    golden = ("--load-inputs", "layerwise.json")
    own = (
        *("--engine", "onnxruntime", "--against", "golden"),
        *("--rtol", "1e-3", "--atol", "1e-3"),
    )
    for source, target, mode in (
        ("wrong.onnx", "first.onnx", "bisect"),
        ("first.onnx", "final.onnx", "linear"),
    ):
        told = cli("reduce", source, "-o", target, "--mode", mode, *golden, *own)
        told.prints(0, "left as they are, since golden values")
    assert operators("final.onnx") == ["Conv"]
    told = cli("inspect", "model", "final.onnx", "--show", "layers")
    assert "conv2.weight" in told.out
    with np.load("final-inputs.npz") as archive:
        fed = dict(archive)
    assert list(fed) == ["/relu1/Relu_output_0"]
    # A smaller one would fail for the shape of its result, not for the weight.
    assert fed["/relu1/Relu_output_0"].shape[1:] == (16, 8, 8)


def test_the_guide_by_commands_and_a_pattern(cli, tmp_path):
    """The simulated failure of the guide: an operator that inspect prints."""
    shown = [*ONNX_PASSES, "inspect", "model", "{model}", "--show", "layers"]
    for source, target, mode in (
        (MODEL, "first.onnx", "bisect"),
        ("first.onnx", "final.onnx", "linear"),
    ):
        cli(
            *("reduce", source, "-o", target, "--mode", mode, "--no-shrink", "-q"),
            *("--fail-regex", "^MaxPool ", "--check", *shown),
        ).tells(0)
    assert operators("final.onnx") == ["MaxPool"]


def test_a_pass_is_reduced(cli, tmp_path):
    run = [*ONNX_PASSES, "-c", DIGITS.parent / "break_adds/pipeline.yaml", "{model}"]
    run += ["-s", "reproducers=false", "-s", "reference={samples: 1}"]
    cli("reduce", MODEL, "-o", "small.onnx", "--no-shrink", "--check", *run).tells(0)
    assert operators("small.onnx") == ["Add"]


def test_a_person_is_asked(cli, monkeypatch, tmp_path):
    write, shown = CandidateStore.file, []

    @contextmanager
    def file(store, model):
        with write(store, model) as path:
            shown.append(path)
            yield path

    class Person:
        def readline(self):
            ops = operators(shown[-1])
            return next(self.doubts, "fail\n" if "MaxPool" in ops else "P\n")

        doubts = iter(["\n", "what?\n"])

    monkeypatch.setattr(CandidateStore, "file", file)
    monkeypatch.setattr("sys.stdin", Person())
    told = cli("reduce", MODEL, "-o", "small.onnx", "--interactive", "--no-shrink")
    assert told.code == 0, told.err
    assert operators("small.onnx") == ["MaxPool"]
    assert told.err.count("answer p, for pass, or f, for fail") == 2


def test_a_person_who_has_gone_ends_it(cli, monkeypatch, tmp_path):
    monkeypatch.setattr("sys.stdin", io.StringIO("f\n"))
    cli("reduce", MODEL, "-o", "small.onnx", "--interactive").tells(2, "there is no answer")
    assert not Path("small.onnx").exists()


@each_of("option", "-o", "--min-good", "--replay")
def test_the_model_is_never_written_over(cli, tmp_path, option):
    path = tmp_path / "model.onnx"
    path.write_bytes(MODEL.read_bytes())
    other = [] if option == "-o" else ["-o", "small.onnx"]
    outcome = cli("reduce", path, *other, option, "model.onnx", "--check", "true {model}")
    outcome.tells(2, "is the model itself")
    assert path.read_bytes() == MODEL.read_bytes()


@each_of("method, told", ("write_bytes", ""), ("mkdir", "--artifacts cannot be written: "))
def test_a_full_disk_ends_it_with_one_sentence(cli, pair, monkeypatch, method, told):
    def full(self, *given, **more):
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr(f"pathlib.Path.{method}", full)
    words = ("--artifacts", "kept") if told else ()
    outcome = cli("reduce", MODEL, "-o", "small.onnx", *words, "--check", pair)
    outcome.tells(3, f"{told}No space left on device")
    assert not Path("small.onnx").exists()


@each_of("failing", 0, 1, 2)
def test_every_sample_is_asked(cli, tmp_path, failing):
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[n,4] x) => (float[n,4] y) { a = Relu(x) b = Log(a) y = Neg(b) }""")
    onnx.save(model, tmp_path / "m.onnx")
    samples = [{"x": np.full((1, 4), 2 if i != failing else 0, np.float32)} for i in range(3)]
    path = tmp_path / "in.json"
    write_samples(path, samples)
    words = ("--engine", "onnxruntime", "--load-inputs", path, "--no-shrink", "--json")
    done = cli("reduce", tmp_path / "m.onnx", "-o", tmp_path / "small.onnx", *words)
    assert done.code == 0
    assert operators(tmp_path / "small.onnx") == ["Log"]
    assert f"reduced on sample {failing} of 3, the first that fails" in done.out
