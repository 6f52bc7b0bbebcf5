import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.configs.engine_text import parse_engine
from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.configs.sections import OutputTolerance, ToleranceSection
from onnx_passes.configs.steps import (
    Checkpoint,
    Group,
    PassUse,
    format_steps,
    format_value,
    parse_pipeline,
)
from onnx_passes.errors import ConfigError
from onnx_passes.runtime.isolated import IsolatedEngine
from tests.tables import each_of


def complaint(text):
    with pytest.raises(ConfigError) as caught:
        parse_pipeline(text)
    return caught.value


def test_values_are_yaml():
    (step,) = parse_pipeline("p{a=1 MiB,b='x, }',c=[1, {d: \"]\"}],e=null,f=1e-5,g=it's,h=~}")
    assert step.options == {
        "a": "1 MiB",
        "b": "x, }",
        "c": [1, {"d": "]"}],
        "e": None,
        "f": 1e-5,
        "g": "it's",
        "h": None,
    }


@each_of(
    "text, message, column",
    ("", "expected the name of a pass", 1),
    ("a,", "expected the name of a pass", 3),
    ("a,,b", "expected the name of a pass, got ','", 3),
    ("a b", "unexpected 'b'", 3),
    ("a)", "unexpected ')'", 2),
    ("a{x=1", "'{' is never closed", 2),
    ("a{", "'{' is never closed", 2),
    ("a{x=[1}", "'[' is never closed", 5),
    ("a{x='1}", "'{' is never closed", 2),
    ("a{x}", "'x' needs a value", 4),
    ("a{x: 1}", "'x:' needs a value: x=...", 6),
    ("a{x=}", "'x' has no value", 5),
    ("a{=1}", "expected the name of an option, got '='", 3),
    ("a{x=1,}", "expected the name of an option, got '}'", 7),
    ("a{x=1,x=2}", "'x' is given twice", 7),
    ("a{x=!foo 1}", "tag '!foo'", 5),
    ("a{x=@}", "not valid YAML", 5),
    ("a<b>", "unexpected '<'", 2),
    ("a(b)", "unexpected '('", 2),
    ("{a: 1", "'{' is never closed", 1),
    ("{a: {}, on_failur: stop}", "one step names 2 passes", 9),
    ("{a: {}, on_failure: stp}", "on_failure: expected stop, rollback or warn", 21),
    ("{<}", "'<' is not the name of a pass", 2),
    ("{group: " * 70 + "a", "'{' is never closed", 553),
)
def test_complaints_point_at_the_column(text, message, column):
    error = complaint(text)
    assert message in error.message
    assert f"pipeline, column {column}\n" in error.where


@each_of("text", "", "null", "True", "~", "1", "1e5", ".inf", "a b", "a,b", "-", "<<", "#")
def test_text_that_looks_like_something_else_stays_text(text):
    assert parse_pipeline(f"p{{x={format_value(text)}}}")[0].options == {"x": text}


@each_of("value", object(), "\ud800", [b"x"])
def test_what_no_text_stands_for_is_refused(value):
    with pytest.raises(TypeError, match="has no place in a pipeline text"):
        format_value(value)


characters = st.characters(exclude_categories=["Cs"])
names = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True).filter(
    lambda name: name not in ("group", "fixpoint", "checkpoint")
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(characters, max_size=20)
    | st.text("{}[]()<>,:=#'\"\\ \n\t-?~ax", max_size=12)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(characters, max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
limits = st.none() | st.floats(0, 10)
tolerances = st.builds(ToleranceSection, rtol=limits, atol=limits)
uses = st.builds(
    PassUse,
    names,
    st.dictionaries(names, values, max_size=4),
    st.sampled_from([None, "stop", "rollback", "warn"]),
    st.none()
    | st.builds(
        OutputTolerance,
        rtol=limits,
        atol=limits,
        outputs=st.dictionaries(st.text(characters, max_size=5), tolerances, max_size=2),
    ),
)
texts = st.text(characters, min_size=1, max_size=8)
checkpoints = st.builds(Checkpoint, texts)
steps = st.recursive(
    uses | checkpoints,
    lambda inner: st.builds(
        Group,
        st.lists(inner, min_size=1, max_size=3).map(tuple),
        texts,
        st.sampled_from(["once", "fixpoint"]),
        st.integers(1, 1000),
    ),
    max_leaves=6,
)


@settings(max_examples=40)
@given(st.lists(steps, min_size=1, max_size=4))
def test_every_pipeline_reads_back(pipeline):
    assert parse_pipeline(format_steps(pipeline)) == pipeline


@settings(max_examples=60)
@given(st.text(max_size=60) | st.text("ab{}[]()<>,=:'\"\\ #\n1", max_size=60))
def test_any_text_is_a_pipeline_or_a_located_complaint(text):
    try:
        steps = parse_pipeline(text)
    except ConfigError as error:
        where = error.where
    else:
        where = "pipeline"
        assert parse_pipeline(format_steps(steps)) == steps
    assert "pipeline" in where


def test_a_key_longer_than_yaml_searches_for_its_colon():
    key = "k" * 3000
    (step,) = parse_pipeline(f"p{{x={format_value({key: 1})}}}")
    assert step.options == {"x": {key: 1}}


def test_isolation_is_asked_for_beside_the_text_or_in_it():
    assert isinstance(parse_engine("onnxruntime", isolate=True), IsolatedEngine)
    engine = parse_engine("onnxruntime{isolate=true,memory_limit=2GiB}")
    assert engine.describe()["memory_limit"] == 2 << 30


@each_of(
    "text, said",
    ("onnxruntime:Cuda2", "did you mean 'cuda'"),
    ("onnxruntime:", "known: "),
    ("onnxruntime:CUDA{provider=CPUExecutionProvider}", "one of them"),
    ("reference:CPU", "only onnxruntime has providers"),
    ("onnxruntime,reference", "is not one engine"),
    ("onnx", "unknown engine"),
    ("onnxruntime{optimization=some}", "cannot be 'some'"),
    ("onnxruntime{memory_limit=much}", "memory_limit"),
    ("", "engine"),
)
def test_what_is_no_engine_is_told(text, said):
    with pytest.raises(ConfigError, match=said):
        parse_engine(text)


@each_of("text", "onnxruntime:CPU", "onnxruntime{provider=CPUExecutionProvider}")
def test_a_file_names_an_engine_as_the_option_does(text):
    config = config_from_data({"passes": ["optimize"], "engines": ["reference", text]})
    assert config.engines[1].options == {"provider": "CPUExecutionProvider"}
    with pytest.raises(ConfigError, match="no execution provider 'Fast'"):
        config_from_data({"engines": ["onnxruntime:Fast"]})
