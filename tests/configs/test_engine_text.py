import pytest

from onnx_passes.configs.engine_text import parse_engine
from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.errors import ConfigError
from onnx_passes.runtime.isolated import IsolatedEngine
from tests.tables import each_of


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
