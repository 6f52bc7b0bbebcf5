from datetime import date
from pathlib import Path

import onnx_ir as ir
import pytest

from onnx_passes import errors
from onnx_passes.configs.engine_configs import resolve_engines
from onnx_passes.configs.pipeline_files import (
    config_from_data,
    default_config,
    load_config,
)
from onnx_passes.configs.resolve import GroupStep, PassStep, format_pipeline, resolve
from onnx_passes.configs.sections import WaiverSection, find_waivers
from onnx_passes.errors import ConfigError, OptionError
from onnx_passes.passes import registry
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.report import summary
from onnx_passes.verify.evidence import ENGINE, Verdict
from tests.tables import each_of, each_row


def cls(name):
    (found,) = registry.lookup(name)
    return found


def test_steps_become_classes_with_all_their_options(load):
    config = load("passes: [{cfg-fold: {size_limit: 1 MiB}, on_failure: warn}, CfgTidy]")
    fold, tidy = resolve(config).steps
    assert fold == PassStep(
        cls("cfg-fold"), {"size_limit": 1 << 20, "mode": "fast", "ratio": 0.5}, "warn"
    )
    assert tidy == PassStep(cls("cfg-tidy"), {})
    assert "cfg.yaml:1:11" in fold.where


def test_a_step_makes_its_pass():
    (step,) = resolve(default_config((), ["cfg-fold{size_limit=2 KiB}"])).steps
    config, state = {}, {}
    made = step.make(config, state)
    assert made.size_limit == 2048
    assert made.config is config
    assert made.state_dict is state
    assert step.text == "cfg-fold{size_limit=2048}"


def test_exhaustive_is_a_fixpoint_around_everything(load):
    (group,) = resolve(load("exhaustive: true\npasses: [cfg-tidy]", (), ["cfg-fold"])).steps
    assert isinstance(group, GroupStep)
    assert group.repeat == "fixpoint"
    assert len(group.steps) == 2
    assert resolve(default_config(["exhaustive=true"])).steps == ()


@each_row("""text | error | message | place | help_
- passes: [cfg-fol] | UnknownPassError | no pass or group is named 'cfg-fol' | 1:10 |
  'cfg-fold'
- passes: [{group: [{cfg-fol: {}}]}] | UnknownPassError | 'cfg-fol' | 1:20 | =None
- passes: ['cfg-tidy,cfg-fol'] | UnknownPassError | 'cfg-fol' | 1:20 | =None
- passes: [cfg-fold: {siz: 1}] | OptionError | cfg-fold has no option 'siz' | 1:21 | =None
- passes: [cfg-fold: {mode: 1, siz: 1}] | OptionError | no option 'siz' | 1:30 | =None
- passes: [cfg-fold: {mode: slow}] | OptionError | option 'mode' | 1:27 | =None
- passes: ['cfg-fold{ratio=x}'] | OptionError | option 'ratio' | 1:26 | =None
- passes: [cfg-tidy: {x: 1}] | OptionError | no option 'x' | 1:21 | no options
- passes: [cfg-group: {x: 1}] | ConfigError | is a group of passes | 1:22 | cfg-fold, cfg-tidy
- verify: {metrics: {rmsee: [0, 1]}} | UnknownMetricError | rmsee | 1:27 | rmse
- dump_after: [cfg-tidy, nope] | UnknownPassError | nope | 1:24 | =None
""")
def test_complaints(load, text, error, message, place, help_):
    with pytest.raises(getattr(errors, error)) as caught:
        resolve(load(text))
    assert message in caught.value.message
    assert f"cfg.yaml:{place}\n" in caught.value.where
    if help_ is not None:
        assert help_ in caught.value.help


@pytest.fixture
def shape_inference():
    """The class of the pass shape-inference, or one in its place until there is one."""
    from onnx_passes.passes import Annotation

    known = {c.name for c in registry.all_passes()}
    if "shape-inference" not in known:

        @registry.register()
        class ShapeInference(Annotation):
            data_prop: bool = True

            def call(self, model): ...

    return cls("shape-inference")


def test_the_sections_of_two_passes_are_their_defaults(load, shape_inference):
    text = "passes: [shape-inference, shape-inference: {data_prop: true}]\n"
    first, second = resolve(load(f"{text}shape_inference: {{data_prop: false}}")).steps
    assert first.options["data_prop"] is False
    assert second.options["data_prop"] is True
    with pytest.raises(OptionError) as caught:
        resolve(load(f"{text}shape_inference: {{data_pro: false}}"))
    assert "cfg.yaml:2:19\n" in caught.value.where


def test_the_text_reads_back_to_the_same_pipeline(load):
    config = load("""\
exhaustive: true
passes:
  - cfg-fold: {size_limit: 1 MiB, mode: safe}
    tolerance: {rtol: 1e-3}
  - group: [cfg-group, checkpoint: {name: in the middle}]
    repeat: fixpoint
    limit: 7
  - cfg-anything: {path: "a b/c", colour: blue, sizes: {1: [2, 3]}, data: [.nan]}
""")
    text = format_pipeline(resolve(config))
    assert text == (
        "{group: [{cfg-fold: {size_limit: 1048576, mode: safe}, tolerance: {rtol: 0.001}}, "
        '{group: [cfg-fold, cfg-tidy, {checkpoint: {name: "in the middle"}}], '
        "repeat: fixpoint, limit: 7}, {cfg-anything: "
        '{data: [.nan], path: "a b/c", colour: blue, sizes: {1: [2, 3]}}}], '
        "name: exhaustive, repeat: fixpoint, limit: 100}"
    )
    assert format_pipeline(resolve(default_config((), [text]))) == text
    options = resolve(default_config((), [text])).passes[-1].options
    assert options["path"] == Path("a b/c")
    assert options["sizes"] == {1: (2, 3)}


def test_a_value_that_no_text_stands_for():
    resolved = resolve(config_from_data({"passes": [{"cfg-anything": {"data": object()}}]}))
    with pytest.raises(ConfigError, match="no text stands for"):
        format_pipeline(resolved)


def test_engines_of_onnxruntime_share_its_section(load):
    config = load("""\
onnxruntime:
  providers: [[CPUExecutionProvider, {}], OtherProvider]
  threads: 2
engines: [onnxruntime, onnxruntime: {threads: 3, when: end}]
""")
    assert [e.engine.threads for e in resolve_engines(config)] == [2, 3]
    assert [e.engine.provider for e in resolve_engines(config)] == ["CPUExecutionProvider"] * 2


@each_row("""text | message | place
- engines: [onnxrt] | unknown engine 'onnxrt' | 1:11
- engines: [onnxruntime: {optimisation: all}] | no option 'optimisation' | 1:25
- engines: [onnxruntime: {threads: many}] | threads | 1:25
- onnxruntime: {thread: 1} | no option 'thread' | 1:15
- onnxruntime: {threads: many} | threads | 1:15
""")
def test_complaints_about_engines(load, text, message, place):
    with pytest.raises(ConfigError) as caught:
        resolve_engines(load(text))
    assert message in caught.value.message
    assert f"cfg.yaml:{place}\n" in caught.value.where


# Models that ONNX Runtime saved optimised go through every preset.


PRESETS = ("cleanup", "simplify", "optimize", "optimize-ort", "lower", "tensorrt")
SAVED = """<ir_version: 8, opset_import: ["" : 18]>
    m (float[2,3,4] x, int64[2] e) => (float[2,3,5] y, int64[2] s)
    <float[4,5] w = {1,2,3,4,5,6,7,8,9,10,1,2,3,4,5,6,7,8,9,10}, float[5] b = {1,2,3,4,5},
     int64[2] gemm_input_shape = {6,4}, int64[3] gemm_output_shape = {2,3,5}>
    { a = Neg(x) r = Reshape(a, gemm_input_shape) g = Gemm(r, w, b)
      o = Reshape(g, gemm_output_shape) y = Relu(o)
      s = Add(e, gemm_input_shape) }"""
"""Its MatMul and Add were joined; a pass parts them, and ONNX Runtime joins them again."""


def run(name, without=""):
    config = load_config(name)
    steps = [step for step in config.passes if getattr(step, "name", "") != without]
    # NVIDIA's compiler is an extra.
    engines = default_config().engines if name == "tensorrt" else config.engines
    config = config.model_copy(update={"passes": steps, "engines": engines})
    return run_pipeline(ir.from_onnx_text(SAVED), config).report


@each_of("name", *PRESETS)
def test_a_saved_model_goes_through(name):
    """5 of 12 failed at the end of ``optimize``: "Attempt to replace the existing tensor"."""
    report = run(name)
    assert report.exit_code == 0, report.error


def test_without_the_renaming_the_engine_is_named_and_the_way_round():
    report = run("optimize", without="rename-engine-names")
    assert report.exit_code == 1
    (failed,) = [c for c in report.final if c.verdict is Verdict.FAILED]
    assert failed.kind == ENGINE
    assert summary.outcome(report).head == f"FAILED on {failed.engine}"
    assert "rename-engine-names" in str(failed.reason)
    assert not report.blame
    assert report.reproducer is not None


TODAY = date(2026, 11, 22)
OF_PASS = WaiverSection(**{"pass": "merge-relus"}, reason="known")
OF_RULE = WaiverSection(rule="drop-relu", reason="known")


def found(waivers, pass_name="merge-relus", rules=(), model="model.onnx"):
    return next(iter(find_waivers(waivers, pass_name, rules, model, TODAY)), None)


@each_of("name", "merge-relus", "MergeRelus", "merge_relus", "merge-relus{limit=3}")
def test_a_pass_is_found_however_its_name_is_written(name):
    assert found([OF_PASS], name) is OF_PASS


def test_each_rule_that_is_to_blame_needs_a_waiver():
    other = WaiverSection(rule="DropClip", reason="known as well")
    rules = ["drop-relu", "drop-clip"]
    both = find_waivers([other, OF_RULE], "p", rules, "model.onnx", TODAY)
    assert both == (OF_RULE, other)


@each_row("""pattern | model | covered
- * | a/b.onnx | =True
- bert-*.onnx | models/bert-base.onnx | =True
- bert-*.onnx | models/gpt.onnx | =False
- models/* | models/gpt.onnx | =False
- Bert.onnx | bert.onnx | =False
""")
def test_the_pattern_is_one_of_file_names(pattern, model, covered):
    waiver = OF_PASS.model_copy(update={"model": pattern})
    assert (found([waiver], model=model) is waiver) == covered


@each_of(
    "expires, counts", (None, True), (date(2026, 11, 22), True), (date(2026, 11, 21), False)
)
def test_a_waiver_counts_up_to_its_last_day(expires, counts):
    waiver = OF_PASS.model_copy(update={"expires": expires})
    assert (found([waiver]) is waiver) == counts
