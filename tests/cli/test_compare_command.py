"""``compare`` as a user calls it."""

import errno
import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.tables import each_of, each_row

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "model.onnx"
PLAIN = "onnxruntime"
FUSED = "onnxruntime{optimization=all}"


def altered(path, name, change):
    """Save the digits model with one weight changed."""
    model = onnx.load(DIGITS)
    (weight,) = [t for t in model.graph.initializer if t.name == name]
    array = change(onnx.numpy_helper.to_array(weight).copy()).astype(np.float32)
    weight.CopyFrom(onnx.numpy_helper.from_array(array, name))
    onnx.save(model, path)
    return path


@pytest.fixture
def wrong(tmp_path):
    return altered(tmp_path / "wrong.onnx", "fc1.bias", lambda a: a * 1.5)


def told(done):
    return json.loads(done.out)


def test_two_engines_agree_within_the_default_tolerance(cli):
    done = cli("compare", DIGITS, "--engine", PLAIN, "--engine", FUSED)
    done.prints(0, "1 value agrees in 3 samples")
    assert "DIFFERS" not in done.out


def test_times_are_printed_if_they_are_asked_for(cli):
    assert not re.search(r"\d (ms|s)\b|latency", cli("compare", DIGITS, DIGITS).out)
    done = cli("compare", DIGITS, DIGITS, "--time", "--iterations", "3", "--warm-up", "1")
    assert "onnxruntime[optimization=all, threads=0]: executed" in done.out
    assert re.search(r" is [\d.]+ times as fast as ", done.out)


def test_a_wrong_model_is_named_with_its_worst_element(cli, wrong):
    done = cli("compare", DIGITS, wrong, "--json")
    assert done.code == 1
    (pair,) = told(done)["comparisons"]
    assert pair["candidate"] == "wrong.onnx on onnxruntime"
    assert not pair["outputs"][0]["passed"]
    assert pair["outputs"][0]["worst"]


def test_a_page_lists_the_layers_by_error(cli, wrong, tmp_path):
    cli("compare", DIGITS, wrong, "--outputs", "all", "--html", "layers.html").tells(1)
    page = (tmp_path / "layers.html").read_text()
    places = [int(found) for found in re.findall(r'data-label="Place"[^>]*>(\d+)<', page)]
    assert places != sorted(places) == list(range(1, len(places) + 1))
    assert "First to differ, in topological order: /fc1/Gemm_output_0" in page


def test_values_in_bodies_are_shown_and_named(cli, write):
    text = """<ir_version: 10, opset_import: ["" : 20]>
        g (float[N] x, bool c) => (float[N] y) {
            y = If (c) <then_branch = t () => (float[N] p) { q = NAME(x) p = Neg(q) },
                        else_branch = e () => (float[N] r) { r = NAME(x) }>
        }"""
    write("sin.onnxtxt", text.replace("NAME", "Sin"))
    write("cos.onnxtxt", text.replace("NAME", "Cos"))
    words = ("compare", "sin.onnxtxt", "cos.onnxtxt", "--outputs")
    done = cli(*words, "all", "--generate", "range=c:1:1")
    done.prints(1, "first to differ, in topological order: y/then_branch/q, made by If")
    cli(*words, "q").tells(2, "name 'y/then_branch/q'")


def test_values_of_a_branch_that_did_not_run_agree_whatever_their_shapes(cli, write):
    text = """<ir_version: 10, opset_import: ["" : 20]>
        g (float[N] x, bool c, int64[K] s) => (float y) {
            y = If (c) <then_branch = t () => (float p) { q = Reshape(x, SIZES) l = Abs(q)
                                                          p = ReduceSum<keepdims = 0>(l) },
                        else_branch = e () => (float r) { r = ReduceSum<keepdims = 0>(x) }>
        }"""
    write(
        "known.onnxtxt",
        text.replace("Reshape(x, SIZES)", "Unsqueeze(x, a)").replace(
            "{ q", "{ a = Constant<value = int64[2] {0, 1}>() q"
        ),
    )
    write("unknown.onnxtxt", text.replace("SIZES", "s"))
    words = ("compare", "known.onnxtxt", "unknown.onnxtxt", "--outputs", "all")
    cli(*words, "--generate", "range=c:0:0").tells(0)


def test_batches_find_what_one_run_finds(cli, wrong):
    words = ("compare", DIGITS, wrong, "--outputs", "all", "--json")
    one, many = told(cli(*words)), told(cli(*words, "--memory-limit", "100KiB"))
    assert one["runs"][0]["batches"] == 1
    assert many["runs"][0]["batches"] > 3
    assert [p["outputs"] for p in one["comparisons"]] == [
        p["outputs"] for p in many["comparisons"]
    ]


def test_fail_fast_leaves_the_rest_out_and_says_so(cli, tmp_path):
    early = altered(tmp_path / "early.onnx", "conv1.weight", lambda a: a * 2)
    words = ("--outputs", "all", "--memory-limit", "100KiB", "--fail-fast")
    done = cli("compare", DIGITS, early, *words)
    done.prints(1, "the rest was not compared")
    assert "scores" not in done.out


def test_one_output_may_have_limits_of_its_own(cli, wrong):
    assert cli("compare", DIGITS, wrong, "--rtol", "scores:1", "--atol", "scores:1").code == 0
    cli("compare", DIGITS, wrong, "--rtol", "score:1").tells(2, "did you mean 'scores'")


@each_row("""judge | code
- simple | =1
- l2 | =1
- l2=0.01 | =0
- cosine | =0
- cosine=0.99999999 | =1
- snr=30 | =0
- snr=90 | =1
- psnr=30 | =0
- quantile=0.5 | =1
- quantile=0 | =0
""")
def test_every_judge_comes_to_its_own_verdict(cli, wrong, judge, code):
    words = ("compare", DIGITS, wrong, "--compare", judge, "--generate", "samples=1")
    assert cli(*words).code == code


def test_top_k_makes_indices_that_may_move(cli, wrong):
    words = ("compare", DIGITS, wrong, "--postprocess", "top-k=3", "--compare", "indices=2")
    done = cli(*words, "--json")
    assert done.code == 0
    assert told(done)["comparisons"][0]["outputs"][0]["size"] % 3 == 0


def test_a_function_of_the_users_judges(cli, write, wrong):
    write(
        "mine.py", "def near(name, e, a):\n    return '' if abs(e - a).max() < 1 else 'far'\n"
    )
    assert cli("compare", DIGITS, wrong, "--compare", "mine:near").code == 0
    cli("compare", DIGITS, wrong, "--compare", "mine:nera").tells(2, "did you mean 'near'")


def test_validate_finds_what_is_not_finite(cli, tmp_path):
    def spoil(array):
        array[0] = np.nan
        return array

    model = altered(tmp_path / "nan.onnx", "fc2.bias", spoil)
    assert cli("compare", model).code == 0
    done = cli("compare", model, "--validate")
    done.prints(1, "not finite: scores", "first at [0,0] of sample 0")


def test_an_engine_that_does_not_execute_is_never_counted_as_compared(cli):
    done = cli("compare", DIGITS, "--engine", PLAIN, "--engine", "tensorrt", "--json")
    found = told(done)
    assert done.code == 3
    assert not found["equal"]
    assert found["comparisons"] == []
    assert found["runs"][1]["state"] in ("absent", "built", "rejected", "parsed")
    assert found["runs"][1]["reason"]


@each_of("form", "json", "zip")
def test_saved_results_are_judged_again_without_a_model(cli, tmp_path, wrong, form):
    results = tmp_path / f"results.{form}"
    words = ("compare", DIGITS, wrong, "--outputs", "all", "--save-outputs", results)
    assert cli(*words).code == 1
    without = ("compare", "--load-outputs", results)
    cli(*without).prints(1, "made by Gemm '/fc1/Gemm'")
    assert cli(*without, "--tolerance", "1").code == 0
    assert cli(*without, "--load-outputs", results, "--tolerance", "1").code == 0


def test_results_of_other_inputs_are_refused(cli):
    cli("compare", DIGITS, "--save-outputs", "golden.zip")
    words = ("--generate", "seed=1", "--load-outputs", "golden.zip")
    cli("compare", DIGITS, *words).tells(2, "came from other inputs")


def test_results_of_a_model_with_other_outputs_are_refused(cli, tmp_path):
    cli("compare", DIGITS, "--save-outputs", "golden.zip")
    model = onnx.load(DIGITS)
    model.graph.node[-1].output[0] = model.graph.output[0].name = "other"
    onnx.save(model, "other.onnx")
    done = cli("compare", "other.onnx", "--load-outputs", "golden.zip")
    done.tells(2, "came from another model: its outputs are scores")


def test_a_full_disk_leaves_no_part_of_a_file(cli, monkeypatch, tmp_path):
    from onnx_passes.model.save import Pending

    def full(self, path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Pending, "publish", full)
    done = cli("compare", DIGITS, "--save-outputs", "results.zip")
    done.tells(2, "No space left")
    assert "model.onnx on onnxruntime: executed" in done.out
    assert list(tmp_path.iterdir()) == []


def test_feeds_come_from_a_loader(cli, write):
    write(
        "feeds.py",
        "import numpy as np\n"
        "def load():\n"
        "    for size in (1, 4):\n"
        "        yield {'image': np.ones((size, 1, 8, 8), np.float32)}\n"
        "def wrong():\n"
        "    return [3]\n",
    )
    cli("compare", DIGITS, DIGITS, "--data-loader", "feeds:load").prints(0, "2 samples")
    assert (
        "sample 0 is of type int" in cli("compare", DIGITS, "--data-loader", "feeds:wrong").err
    )


def test_generated_inputs_have_the_shape_and_range_asked_for(cli):
    text = "seed=3,samples=2,range=image:0:1,shape=image:5x1x8x8"
    assert cli("compare", DIGITS, "--generate", text, "--save-inputs", "in.json").code == 0
    from onnx_passes.verify.saved import read_samples

    samples = read_samples("in.json")
    assert [s["image"].shape for s in samples] == [(5, 1, 8, 8)] * 2
    assert all(s["image"].min() >= 0 and s["image"].max() <= 1 for s in samples)


@each_of("weight, noted", (0.0, True), (1.0, False))
def test_an_output_that_is_one_number_everywhere_is_noted(cli, weight, noted):
    for name, bias in (("a", weight), ("b", weight)):
        text = f"""<ir_version: 10, opset_import: ["" : 20]>
            g (float[N,3] x) => (float[N,3] y) <float w = {{{bias}}}> {{ y = Mul(x, w) }}"""
        onnx.save(onnx.parser.parse_model(text), f"{name}.onnx")
    found = cli("compare", "a.onnx", "b.onnx")
    assert found.code == 0
    assert ("y is 0 everywhere: that models agree says little" in found.out) == noted
