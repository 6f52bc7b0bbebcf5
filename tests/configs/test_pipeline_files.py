import errno
import operator
import os
import threading

import pytest

from onnx_passes.configs import pipeline_files
from onnx_passes.configs.schema import EngineUse
from onnx_passes.configs.steps import Checkpoint, Group, PassUse
from onnx_passes.configs.yaml_tree import Source, parse_yaml
from onnx_passes.errors import ConfigError
from tests.cli.modules import SEED
from tests.tables import cases, each_of

FILE = """\
verify:
  scope: auto
  tolerance: {rtol: 1}
off: false
passes: [a, {b: {x: 1}}]
empty:
"""


def override(text):
    tree = parse_yaml(Source("f.yaml", FILE))
    pipeline_files.apply_override(tree, text)
    return tree


@each_of(
    "text, path, value",
    ("verify.scope=model", ("verify", "scope"), "model"),
    ("verify.tolerance={rtol: 1e-3}", ("verify", "tolerance"), {"rtol": 1e-3}),
    ("verify=false", ("verify",), False),
    ("passes.1.b.x=[1, 2]", ("passes", 1, "b", "x"), [1, 2]),
    ("passes.0=c", ("passes", 0), "c"),
    ("new.deep.key=1", ("new", "deep", "key"), 1),
    ("empty.x=1", ("empty", "x"), 1),
    ('ranges."input.1"=[0, 1]', ("ranges", "input.1"), [0, 1]),
    ("ranges.'a=b'=1", ("ranges", "a=b"), 1),
    ("x=a=b", ("x",), "a=b"),
    ("x=", ("x",), None),
    ("x.0=1", ("x", "0"), 1),
)
def test_a_key_is_set(text, path, value):
    found = override(text).data
    for part in path:
        found = found[part]
    assert found == value


def test_what_an_override_set_is_blamed_on_it():
    tree = override("verify.tolerance={rtol: 1e-3, atol: x}")
    assert tree.value(("verify", "tolerance", "atol")).place == "--set, column 37"
    assert tree.key(("verify", "tolerance", "atol")).place == "--set, column 31"
    assert tree.key(("verify", "tolerance")).place == "--set, column 8"


@each_of(
    "text, message, column",
    ("", "expected a key", 1),
    ("verify", "expected '='", 7),
    ("verify.=1", "expected a key", 8),
    ("=1", "expected a key", 1),
    ("verify scope=1", "expected '='", 7),
    ("off.x=1", "'off' is false, which has no key 'x'", 5),
    ("verify.scope.x=1", "'verify.scope' is the text 'auto'", 14),
    ("passes.2=a", "a list with items 0 to 1, and '2' is none", 8),
    ("passes.-1=a", "'-1' is none of them", 8),
    ("passes.b=a", "'b' is none of them", 8),
    ("passes.99999999999999999999=a", "is none of them", 8),
    ("x=[1", "not valid YAML", 5),
    ("x={a: 1, a: 2}", "'a' is given twice", 10),
    ("x=!!python/name:os.system", "tag", 3),
)
def test_complaints_point_into_the_override(text, message, column):
    with pytest.raises(ConfigError) as caught:
        override(text)
    assert message in caught.value.message
    assert f"--set, column {column}\n" in caught.value.where


def complaint(load, text, *args):
    with pytest.raises(ConfigError) as caught:
        load(text, *args)
    return caught.value


def test_a_file_of_the_seed_system_loads(load):
    config = load(SEED)
    assert config.reference.inputs == ["inp.npy"]
    assert config.reference.outputs == ["out.npy"]
    assert config.verify.tolerance.atol == 1e-6
    assert config.verify.metrics == {"max_abs_error": (0.0, 0.01)}
    assert config.onnxruntime.providers == [("CPUExecutionProvider", {})]
    assert config.model_checker == {"full_check": True}
    assert config.logging.checkpoint is None
    assert config.plain()["onnxruntime"]["full_context_dump"] is False


def test_every_form_of_a_step(load):
    config = load("""\
passes:
  - plain
  - "text{a=1},more"
  - options: {a: 1, b: [x]}
    on_failure: warn
    tolerance: {rtol: 1e-3, outputs: {y: {atol: 1}}}
  - nothing:
  - group: [inner, {group: [deep]}]
    name: twice
    repeat: fixpoint
    limit: 3
  - checkpoint
  - checkpoint: {name: middle}
""")
    plain, text, more, options, nothing, group, checkpoint, middle = config.passes
    assert [plain, text, more] == [
        PassUse("plain"),
        PassUse("text", {"a": 1}),
        PassUse("more"),
    ]
    assert (options.options, options.on_failure) == ({"a": 1, "b": ["x"]}, "warn")
    assert options.tolerance.outputs["y"].atol == 1
    assert nothing == PassUse("nothing")
    inner = (PassUse("inner"), Group((PassUse("deep"),)))
    assert group == Group(inner, "twice", "fixpoint", 3)
    assert (checkpoint, middle) == (Checkpoint(), Checkpoint("middle"))


ENGINES = (EngineUse("reference"), EngineUse("onnxruntime", {"threads": 2}, "checkpoint"))
GROUP = Group((PassUse("b"),), "fixpoint", "fixpoint")
DIMS = "reference: {dims: {batch: 4, N: [1, 8]}, ranges: {0: [-1, .inf]}}"
NOTHING = "imports:\npasses:\nengines:\nreference:\n  seed:\nlimits:\n  pass_seconds:\n"


@each_of(
    "text, path, value",
    ("passes: 'a,{group: [b], repeat: fixpoint}'", "passes", (PassUse("a"), GROUP)),
    (b"\xef\xbb\xbfpasses: [a]", "passes", (PassUse("a"),)),
    (
        "engines: [reference, {onnxruntime: {threads: 2, when: checkpoint}}]",
        "engines",
        ENGINES,
    ),
    (DIMS, "reference.dims", {"batch": 4, "N": (1, 8)}),
    (DIMS, "reference.ranges", {"0": (-1, float("inf"))}),
    ("reference: {inp: [], out: []}", "reference.inputs", None),
    ("reference: {inp: [], out: []}", "reference.outputs", None),
    ("verify: {tolerance: {atol: 1e-6, equal_nan: true}}", "verify.tolerance.atol", 1e-6),
    (NOTHING, "imports", ()),
    (NOTHING, "reference.seed", 0),
    (NOTHING, "engines", pipeline_files.default_config().engines),
    (NOTHING, "limits.pass_seconds", None),  # null is a value there: no limit
    ("verify: false", "verify.enabled", False),
    ("verify: no", "verify.enabled", False),
    ("verify: {}", "verify.enabled", False),
    ("verify:", "verify.enabled", True),
    ("verify: {metrics: {}}", "verify.enabled", True),
)
def test_what_a_key_means(load, text, path, value):
    assert operator.attrgetter(path)(load(text)) == value


def test_command_line_passes_run_last(load):
    assert load("passes: [a]", (), ["b{x=1}", "c,d"]).passes == (
        PassUse("a"),
        PassUse("b", {"x": 1}),
        PassUse("c"),
        PassUse("d"),
    )


@each_of(
    "text, message, place, help_",
    *cases(r"""
- pases: [] | unknown key 'pases' | 1:1 | did you mean 'passes'?
- frames: [] | unknown key 'frames' | 1:1 | extra:
- verify: {engines: []} | unknown key | 1:10 | 'engines' is a key of the file itself
- metrics: {snr: [1, 2]} | unknown key | 1:1 | 'metrics' is a key of 'verify'
- verify: {scope: modl} | expected auto, region or model, got the text 'modl' | 1:17 | 'model'
- verify: 3 | verify: expected a mapping, got 3 | 1:9 | =None
- verify: maybe | expected true or false, got the text 'maybe' | 1:9 | =None
- verify: {tolerance: {rtol: -1}} | verify.tolerance.rtol: expected a number of at least 0 |
  1:28 | =None
- verify: {tolerance: derive} | expected 'derived', 'default' | 1:21 | =None
- verify: {tolerance: {rtol: .nan}} | verify.tolerance.rtol | 1:28 | =None
- verify: {tolerance: {rtol: x}} | expected a number, got the text 'x' | 1:28 | =None
- verify: {drift: {outputs: {}}} | unknown key 'outputs' in 'verify.drift' | 1:18 | =None
- verify: {metrics: {rmse: [1, 0]}} | the lower one first | 1:26 | =None
- verify: {metrics: {rmse: 1}} | two numbers, [low, high] | 1:26 | =None
- verify: {metrics: [rmse]} | expected a mapping, got a list | 1:19 | =None
- reference: {seed: 1.5} | expected a whole number, got 1.5 | 1:19 | =None
- reference: {seed: true} | expected a whole number, got true | 1:19 | =None
- reference: {samples: 0} | expected a number of at least 1 | 1:22 | =None
- reference: {dims: {n: [1, -2]}} | a size, or a list of sizes | 1:23 | =None
- verify: {tolerance: {equal_nan: false}} | verify.tolerance: expected 'equal_nan: true',
  since NaN equals NaN | 1:21 | =None
- reference: {inp: [3]} | reference.inp: expected a path | 1:18 | =None
- imports: mod | imports: expected a list, got the text 'mod' | 1:10 | =None
- imports: [3] | imports.0: expected text, got 3 | 1:11 | =None
- exhaustive: 7 | exhaustive: expected true or false, got 7 | 1:13 | =None
- on_failure: rolback | expected stop, rollback or warn | 1:13 | 'rollback'
- logging: {checkpoint: true} | expected a path, or false, got true | 1:23 | =None
- limits: {pass_seconds: 0} | expected a number above 0 | 1:24 | =None
- dump_after: 3 | none, changed, all, or a list of passes | 1:13 | =None
- save: {size_threshold: 1 MiBB} | a size is a number with an optional unit | 1:24 | =None
- save: {external_data: extern} | expected keep, inline or external | 1:23 | 'external'
- onnxruntime: {providers: [3]} | provider names | 1:26 | =None
- passes: 3 | passes: expected a list of steps, got 3 | 1:9 | a step is
- passes: [3] | 3 is not a step | 1:10 | a step is
- passes: [[a]] | a list is not a step | 1:10 | =None
- passes: [{}] | a mapping is not a step | 1:10 | =None
- passes: [{a: 1}] | the options of 'a' are 1, not a mapping | 1:14 | =None
- passes: [{on_failure: stop}] | this step names no pass | 1:10 | =None
- ='passes:\n- group: []' | the group has no steps | 2:3 | =None
- ='passes:\n- fixpoint: [a]' | 'fixpoint' is not a pass | 2:3 | repeat: fixpoint
- passes: [{checkpoint: {nam: x}}] | unknown key 'nam' | 1:24 | 'name'
- passes: [{checkpoint: {}, x: 1}] | a checkpoint has no setting 'x' | 1:27 | =None
- engines: onnxruntime | expected a list of engines | 1:10 | =None
- engines: [3] | 3 is not an engine | 1:11 | =None
- engines: [{a: {when: never}}] | 'when' is each, checkpoint or end | 1:22 | =None
- engines: [{a: 1}] | the options of the engine 'a' are 1 | 1:15 | =None
- - a | a pipeline file is a mapping, not a list | 1:1 | =None
- just text | a pipeline file is a mapping, not the text | 1:1 | =None
"""),
    ("verify:\n  scop: model", "unknown key 'scop' in 'verify'", "2:3", "'scope'"),
    ("reference:\n  inp: [a]\n  inputs: [b]", "'inputs' and 'inp' are two names", "3:3", None),
    ("passes:\n  - a: {}\n    b: {}", "one step names 2 passes: a, b", "3:5", None),
    ("passes:\n- a: {}\n  on_failure: x", "passes.0.on_failure: expected", "3:15", None),
    ("passes:\n- group: [a]\n  repeat: ever", "expected once or fixpoint", "3:11", None),
    (
        "passes:\n- group: [a]\n  limit: 0",
        "limit: expected a number of at least 1",
        "3:10",
        None,
    ),
    (
        "passes:\n- group: [a]\n  tolerance: {}",
        "unknown key 'tolerance' in 'passes.0'",
        "3:3",
        None,
    ),
    ("passes:\n  - a{x=1", "'{' is never closed", "2:6", None),
    ("passes:\n  - 'a{x=1}('", "unexpected '('", "2:12", None),
)
def test_complaints(load, text, message, place, help_):
    error = complaint(load, text)
    assert message in error.message
    assert f"cfg.yaml:{place}\n" in error.where
    if help_ is not None:
        assert help_ in error.help


def test_text_with_escapes_is_quoted_on_its_own(load):
    where = complaint(load, 'passes:\n  - "a{\\x78=1"').where
    assert "cfg.yaml:2:5, column 2" in where
    assert "a{x=1" in where


@each_of(
    "text, message",
    ("", "is empty"),
    ("# only a comment\n", "is empty"),
    (b"\xff\xfea\x00", "UTF-16"),
    (b"passes: []\n# caf\xe9", "the byte 0xE9 at"),
    (b"\x08\x0a\x12\x07pytorch", "U+0008"),
    (b"\0" * 100, "U+0000"),
    (b"a: " + b"x" * (1 << 20), "larger than 1 MiB"),
)
def test_what_is_no_pipeline_file(load, text, message):
    assert message in complaint(load, text).message


def test_paths_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError, match="is a folder"):
        pipeline_files.load_config(tmp_path)
    with pytest.raises(ConfigError, match="there is no pipeline file"):
        pipeline_files.load_config(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        pipeline_files.load_config("a\0b")
    link = tmp_path / "dangling"
    link.symlink_to(tmp_path / "gone")
    with pytest.raises(ConfigError, match="there is no pipeline file"):
        pipeline_files.load_config(link)


def test_a_file_without_permission(tmp_path, monkeypatch):
    def refuse(name, mode):  # root, who runs tests in containers, may read everything
        raise PermissionError(errno.EACCES, "Permission denied", name)

    monkeypatch.setattr("onnx_passes.configs.pipeline_files.open", refuse, raising=False)
    with pytest.raises(ConfigError, match="may not be read: Permission denied"):
        pipeline_files.load_config(tmp_path / "c.yaml")


def test_a_pipe_is_read(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=("passes: [a]",))
    writer.start()
    assert pipeline_files.load_config(path).passes == (PassUse("a"),)
    writer.join()


def test_shipped_pipelines_are_found_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert {"cleanup", "optimize"} <= set(pipeline_files.shipped_configs())
    for name in pipeline_files.shipped_configs():
        assert pipeline_files.load_config(name).passes
    with pytest.raises(ConfigError) as caught:
        pipeline_files.load_config("optimise")
    assert caught.value.help == "did you mean 'optimize'?"


def test_a_path_wins_over_a_shipped_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cleanup").write_text("passes: [mine]")
    assert pipeline_files.load_config("cleanup").passes == (PassUse("mine"),)


@each_of("preset", "cleanup", "simplify", "optimize", "optimize-ort", "lower")
def test_the_presets_leave_what_callers_may_give_to_its_user(preset):
    dropping = PassUse("remove-initializers-from-inputs", {"before_ir_version": 4})
    for use in pipeline_files.load_config(preset).passes:
        if isinstance(use, PassUse) and use.name == dropping.name:
            assert dict(use.options) == dropping.options


def test_plain_data_makes_a_config(tmp_path):
    config = pipeline_files.config_from_data({"passes": ["a"], "verify": False}, tmp_path)
    assert config.passes == (PassUse("a"),)
    assert config.folder == tmp_path
    with pytest.raises(ConfigError, match="unknown key 'pases'") as caught:
        pipeline_files.config_from_data({"pases": ["a"]})
    assert caught.value.where is None
