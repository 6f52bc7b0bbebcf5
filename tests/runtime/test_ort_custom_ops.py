"""Libraries of operators of other domains."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.errors import ConfigError, EngineUnavailableError
from onnx_passes.runtime.engines import engine_from_config
from tests.tables import each_of

MODEL = """<ir_version: 8, opset_import: ["": 17, "ai.onnx.contrib": 1]> g (string[2] x)
    => (string[2] y) { y = ai.onnx.contrib.StringUpper(x) }"""


def run(**options):
    engine = engine_from_config("onnxruntime", options)
    with engine.prepare(ir.from_onnx_text(MODEL)) as session:
        return session.run({"x": np.array(["ab", "cd"], object)})["y"]


@each_of("isolate", False, True)
def test_the_operators_of_a_library_run(isolate):
    extensions = pytest.importorskip(
        "onnxruntime_extensions", reason="pip install onnxruntime-extensions"
    )
    found = run(custom_ops=extensions.get_library_path(), isolate=isolate)
    assert list(found) == ["AB", "CD"]


def test_a_library_that_is_not_there_is_told():
    with pytest.raises(EngineUnavailableError, match=r"'nowhere\.so' is not a file"):
        run(custom_ops=["nowhere.so"])


def test_a_file_that_is_not_a_library_is_told(tmp_path):
    path = tmp_path / "ops.so"
    path.write_text("no library")
    with pytest.raises(EngineUnavailableError, match=r"loaded: .*ops\.so") as failure:
        run(custom_ops=[str(path)])
    assert "RegisterCustomOps" in str(failure.value.help)


@each_of("given", 3, [3], {"a": "b"})
def test_anything_but_text_is_refused(given):
    with pytest.raises(ConfigError, match="custom_ops must be a list of text"):
        run(custom_ops=given)


def test_an_option_of_a_provider_without_a_value_is_refused():
    with pytest.raises(ConfigError, match="mapping with values"):
        engine_from_config(
            "onnxruntime", {"provider": "X", "provider_options": {"device_type=CPU": None}}
        )
