"""Models side by side, from Python."""

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest

from onnx_passes.bench.runs import Loader, Runner, compare, open_results, save_results
from onnx_passes.bench.runs.judges import Settings
from onnx_passes.errors import ReferenceDataError, UsageError


def model(body, header="float[N] x) => (float[N] y"):
    text = f'<ir_version: 10, opset_import: ["" : 20]> main ({header}) {{ {body} }}'
    return ir.from_proto(onnx.parser.parse_model(text))


X = [{"x": np.array([1.0, -2.0, 3.0], np.float32)}]


def test_values_of_one_model_only_are_told_and_do_not_fail():
    before, after = model("a = Neg(x) b = Neg(a) y = Relu(b)"), model("y = Relu(x)")
    found = compare([Runner(before), Runner(after)], X, settings=Settings(outputs="all"))
    assert found.passed
    assert found.pairs[0].only_reference == ["a", "b"]
    back = compare([Runner(after), Runner(before)], X, settings=Settings(outputs="all"))
    assert back.passed
    assert back.pairs[0].only_candidate == ["a", "b"]


def test_a_missing_output_fails():
    one = model("y = Relu(x) z = Neg(x)", "float[N] x) => (float[N] y, float[N] z")
    found = compare([Runner(one), Runner(model("y = Relu(x)"))], X)
    assert not found.passed
    assert [check.output for check in found.pairs[0].outputs if not check.passed] == ["z"]
    layered = Settings(outputs="all")
    found = compare([Runner(one), Runner(model("y = Relu(x)"))], X, settings=layered)
    assert found.exit_code == 1


def test_the_first_to_differ_is_first_in_topological_order_whatever_the_sample():
    before = model("a = Mul(x, x) b = Relu(x) y = Add(a, b)")
    after = model("c = Abs(x) a = Mul(x, c) b = Relu(x) y = Add(a, b)")
    samples = [{"x": np.array([v], np.float32)} for v in (2.0, -2.0)]
    found = compare([Runner(before), Runner(after)], samples, settings=Settings(outputs="all"))
    first = found.pairs[0].first
    assert (first.check.output, first.sample, first.node) == ("a", 1, "Mul")


def test_a_value_whose_size_depends_on_the_data_is_measured_first():
    sparse = model(
        "i = NonZero(x) f = Cast<to = 1>(i) y = ReduceSum<keepdims = 0>(f)",
        "float[N] x) => (float y",
    )
    many = [{"x": np.ones(4096, np.float32)}]
    settings = Settings(outputs="all", memory_limit=4 * 40_000)
    found = compare([Runner(sparse), Runner(sparse)], many, settings=settings)
    assert found.passed
    # int64 [1,4096] and float [1,4096] do not fit into 40,000 bytes together.
    assert found.runs[0].batches == 2
    assert found.notes == []


def test_functions_are_compared_node_by_node():
    text = """<ir_version: 10, opset_import: ["" : 20, "f" : 1]>
    main (float[N] x) => (float[N] y) { y = f.twice(x) }
    <domain: "f", opset_import: ["" : 20]> twice (p) => (q) { r = Neg(p) q = Neg(r) }"""
    nested = ir.from_proto(onnx.parser.parse_model(text))
    found = compare([Runner(nested), Runner(nested)], X, settings=Settings(outputs="all"))
    assert len(found.pairs[0].outputs) == 2


def test_sequences_and_strings_are_compared_and_saved(tmp_path):
    text = model(
        "s = SequenceConstruct(x, x) y = Identity(x)",
        "string[N] x) => (seq(string[N]) s, string[N] y",
    )
    samples = [{"x": np.array(["é", ""], object)}]
    settings = Settings(keep=True, hashes=True)
    found = compare([Runner(text), Runner(text)], samples, settings=settings)
    assert found.passed
    save_results(found, tmp_path / "r.zip")
    again = compare([], recorded=open_results(tmp_path / "r.zip"))
    assert again.passed
    assert again.runs[0].values.get(0, "s")[1].tolist() == ["é", ""]
    with pytest.raises(ReferenceDataError, match="cannot hold 's'"):
        save_results(found, tmp_path / "r.json")
    assert [path.name for path in tmp_path.iterdir()] == ["r.zip"]


def test_polygraphy_reads_the_json_and_its_own_is_read(tmp_path):
    from onnx_passes.verify.saved import write_samples

    write_samples(tmp_path / "p.json", [{"y": X[0]["x"]}], kind="results", runner="trt")
    (run,) = open_results(tmp_path / "p.json")
    assert (run.name, run.engine) == ("trt", "unknown")
    found = compare([Runner(model("y = Identity(x)"))], X, recorded=[run])
    assert found.passed
    assert "nothing says which model" in found.notes[0]


def test_an_engine_that_fails_is_a_finding_and_the_others_are_compared():
    unknown = ir.from_proto(
        onnx.parser.parse_model(
            """<ir_version: 10, opset_import: ["" : 20, "none" : 1]>
            main (float[N] x) => (float[N] y) { y = none.Nothing(x) }"""
        )
    )
    good = model("y = Relu(x)")
    found = compare([Runner(unknown), Runner(good), Runner(good)], X)
    assert found.runs[0].state == "failed"
    assert found.runs[0].reason
    assert [pair.passed for pair in found.pairs] == [True]
    assert found.pairs[0].reference == "model on onnxruntime #2"
    assert found.exit_code == 3
    assert not found.passed


def test_a_runner_is_ready_within_its_context():
    with Runner(Loader(model("y = Relu(x)"))) as runner:
        assert runner.infer(X[0])["y"].tolist() == [1.0, 0.0, 3.0]
    with pytest.raises(Exception, match="is not ready"):
        runner.infer(X[0])


def test_a_sample_that_does_not_fit_is_refused_before_anything_runs():
    with pytest.raises(ReferenceDataError, match="no input 'z'"):
        compare([Runner(model("y = Relu(x)"))], [{"z": X[0]["x"]}])
    with pytest.raises(UsageError, match="no inputs to run"):
        compare([Runner(model("y = Relu(x)"))], [])
    with pytest.raises(UsageError, match="nothing to run"):
        compare([])


def test_one_output_of_two_is_run_alone_and_the_other_is_not_missed(tmp_path):
    two = model("y = Relu(x) z = Neg(x)", "float[N] x) => (float[N] y, float[N] z")
    keep = Settings(keep=True, hashes=True)
    save_results(compare([Runner(two)], X, settings=keep), tmp_path / "two.zip")
    only = Settings(outputs=["z"], hashes=True)
    found = compare([Runner(two), Runner(two)], X, settings=only)
    assert [check.output for check in found.pairs[0].outputs] == ["z"]
    recorded = open_results(tmp_path / "two.zip")
    found = compare([Runner(two)], X, recorded=recorded, settings=only)
    assert found.passed
    assert [check.output for check in found.pairs[0].outputs] == ["z"]


def test_a_sample_names_the_model_that_it_does_not_fit():
    other = model("y = Relu(x)", "float[2] x) => (float[2] y")
    with pytest.raises(ReferenceDataError, match="sample 0 for small"):
        compare([Runner(model("y = Relu(x)")), Runner(named(other, "small"))], X)


def named(made, name):
    loader = Loader(made)
    loader.name = name
    return loader
