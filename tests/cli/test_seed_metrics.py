"""Metrics as the seed system has them: put into a module, and named in ``verify.metrics``."""

import json
import sys

import numpy as np
import pytest

import onnx_passes.passes.verify as verify
from tests.cli.modules import read_json
from tests.tables import each_of

PASS = """\
import types

import numpy as np
import onnx_passes.passes as passes
import onnx_passes.passes.verify as verify
from onnx_passes.passes.base import RewriteRulePass, Transformation

@passes.verify.metric
@passes.register()
class Drop{name}(Transformation, RewriteRulePass):
    def pattern(self, op, x): return op.Identity(x)
    def rewrite(self, op, x): return x

"""


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    """Forget what a test puts into the module."""
    before = dict(vars(verify))
    yield
    vars(verify).clear()
    vars(verify).update(before)


@pytest.fixture
def run(cli, model, write):
    """Run a pass under metrics; what they measured, by name."""

    def call(name, code, metrics, *words, out=("out.npy",)):
        np.save("inp.npy", np.full((3, 2), 2, np.float32))
        np.save("out.npy", np.full((3, 2), 4, np.float32))
        write(f"seed_{name}.py", PASS.format(name=name.title()) + code)
        config = {
            "imports": [f"seed_{name}"],
            "passes": [f"Drop{name.title()}"],
            "reference": {"inp": ["inp.npy", "inp.npy"], "out": list(out)},
            "verify": {"metrics": metrics},
        }
        path = write("cfg.yaml", json.dumps(config))
        done = cli("-c", path, "-o", "o.onnx", model, "--json", "report.json", *words)
        sys.modules.pop(f"seed_{name}", None)
        try:
            checks = read_json("report.json")["passes"][0]["checks"]
        except FileNotFoundError:
            return done, {}
        return done, {m["name"]: m["value"] for c in checks for m in c["metrics"]}

    return call


MINE = "types.SimpleNamespace(mean=lambda p, e: float(p[0].mean()))"
TWICE = "lambda p, e: 2 * verify.max_abs_error(p, [x - 1 for x in e])"


@each_of(
    "metric, name, code, found",
    ("largest", "largest", "lambda produced, expected: np.max(produced[0])", 4.0),
    ("mine.mean", "mine", MINE, 4.0),
    ("max_abs_error", "max_abs_error", "lambda produced, expected: 17.0", 17.0),
    ("twice", "twice", TWICE, 2.0),
)
def test_a_function_in_the_module_is_a_metric_of_its_name(run, metric, name, code, found):
    done, values = run(
        name.replace("_", ""), f"verify.{name} = {code}\n", {metric: [found] * 2}
    )
    assert done.code == 0, done.err
    assert values == {metric: found}


@each_of(
    "metric, limits, code, out, told",
    # It gets the outputs that the file names.
    ("off", [0, 0.5], "float(abs(p[0] - e[0] - 1).max())", "out.npy", "has off 1 on"),
    ("gain", [15, 1000], "float('inf')", "out.npy", "allow .inf"),
    ("off", [0, 0.5], "0.0", "", "metric off needs labels"),
    ("partial", [0, 1], "", "out.npy", "there is no metric 'partial'"),
)
def test_a_metric_that_the_original_misses_is_told(run, metric, limits, code, out, told):
    text = f"verify.{metric} = lambda p, e: {code}\n" if code else ""
    done, found = run(f"{metric}{len(code)}", text, {metric: limits}, out=[out] if out else ())
    assert (done.code, found) == (2, {})
    assert told in done.err


def test_an_error_is_measured_against_the_expected_outputs_of_the_file(run):
    done, found = run("golden", "", {"max_abs_error": [0, 0.01]})
    assert (done.code, found) == (0, {"max_abs_error": 0.0}), done.err
    np.save("other.npy", np.full((3, 2), 3.5, np.float32))
    done, found = run("other", "", {"max_abs_error": [0, 0.01]}, out=("other.npy",))
    done.tells(2, "the original itself has max_abs_error 0.5 on")


def test_an_error_is_measured_against_the_original_if_the_file_has_labels(run):
    np.save("labels.npy", np.zeros(3, np.int64))
    done, found = run("labels", "", {"max_abs_error": [0, 0]}, out=("labels.npy",))
    assert (done.code, found) == (0, {"max_abs_error": 0.0}), done.err


@each_of("verify", {}, False)
def test_an_empty_section_switches_verification_off(cli, model, write, verify):
    path = write("cfg.yaml", json.dumps({"passes": ["eliminate-identity"], "verify": verify}))
    cli("-c", path, "-o", "out.onnx", model).tells(0, "VERIFICATION IS OFF")


def test_the_step_verify_is_a_checkpoint(cli, model, write):
    path = write("cfg.yaml", json.dumps({"passes": ["eliminate-identity"]}))
    words = ["-c", path, "-o", "out.onnx", model, "--json", "report.json"]
    assert cli(*words, "shape-inference", "verify").code == 0
    last = read_json("report.json")["passes"][-1]
    assert (last["name"], last["contract"]) == ("verify", "drift")
    assert cli(*words, "verify{deep=1}").code == 2
