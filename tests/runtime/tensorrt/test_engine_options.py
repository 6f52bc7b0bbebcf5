import pytest

from onnx_passes.errors import ConfigError
from onnx_passes.runtime.engines import engine_from_config
from onnx_passes.runtime.isolated import IsolatedEngine
from onnx_passes.runtime.tensorrt.engine import compiler_of, make_tensorrt
from onnx_passes.runtime.tensorrt.engine_options import read_options
from tests.tables import each_of, each_row


@each_row("""written | read
- =8.9 | 8.9
- 8.9 | 8.9
- =12.0 | 12.0
- sm_120 | 12.0
- SM80 | 8.0
""")
def test_a_compute_capability_is_read_however_it_is_written(written, read):
    found = read_options("tensorrt-rtx", {"compute_capabilities": [written]})
    assert found.compute_capabilities == (read,)


@each_of(
    "options, told, help_",
    ({"fp16": True}, "no option 'fp16': networks are strongly typed", "pass for precision"),
    ({"tf33": True}, "no option 'tf33'", "tf32"),
    ({"tf32": "yes"}, "tensorrt-rtx.tf32 cannot be 'yes'", "boolean"),
    ({"compute_capabilities": ["ada"]}, "cannot be 'ada'", "such as 8.9"),
    ({"compute_capabilities": True}, "cannot be True", "such as 8.9"),
    ({"optimization_level": 6}, "optimization_level cannot be 6", "5"),
    ({"workspace": 0}, "workspace cannot be 0", "greater than 0"),
    ({"workspace": "much"}, "workspace cannot be 'much'", "integer"),
    ({"profiles": {"x": {"min": [1]}}}, "profiles cannot be", "min, opt and max"),
    ({"profiles": 7}, "profiles cannot be 7", "list of such mappings"),
    ({"plugins": [3]}, "cannot be 3", "string"),
    ({"network_hook": "nowhere"}, "network_hook cannot be 'nowhere'", "module:function"),
    ({"require": "verified"}, "require cannot be 'verified'", "built"),
)
def test_a_wrong_option_is_named_with_what_fits(options, told, help_):
    with pytest.raises(ConfigError) as failure:
        engine_from_config("tensorrt-rtx", options)
    assert told in failure.value.message
    assert help_ in failure.value.help


@each_of("name", "tensorrt", "tensorrt-rtx")
def test_it_runs_in_a_child_process_unless_told_otherwise(name):
    assert isinstance(engine_from_config(name), IsolatedEngine)
    plain = engine_from_config(name, {"isolate": False})
    assert compiler_of(plain) is plain


def test_tf32_is_off_and_recorded():
    engine = make_tensorrt("tensorrt-rtx", {"compute_capabilities": [8.0]})
    assert engine.name == "tensorrt-rtx[8.0]"
    assert engine.describe()["tf32"] is False
    assert engine.describe()["strongly_typed"] is True
