"""A session on a fake driver and fake bindings; nothing here is executed on a GPU."""

import gc

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest

from onnx_passes.errors import (
    EngineCrashedError,
    EngineError,
    EngineUnavailableError,
    UnsupportedModelError,
)
from onnx_passes.runtime.engine_base import SessionInterface
from onnx_passes.runtime.tensorrt.bindings import BuildLog
from onnx_passes.runtime.tensorrt.engine import EngineLayer, layers_of
from onnx_passes.runtime.tensorrt.session import TensorRtSession
from tests.runtime.tensorrt.fake_gpu import bindings
from tests.tables import each_of

HEAD = '<ir_version: 8, opset_import: ["": 17]> g '
PRODUCT = "(float[2,3] x, float[3,2] w) => (float[2,2] y) { y = MatMul(x, w) }"
DYNAMIC = "(float[n,3] x) => (float[n,3] y) { y = Neg(x) }"
NON_ZERO = "(float[4] x) => (int64[1,k] y, float[4] z) { y = NonZero(x) z = Neg(x) }"
RESHAPED = "(float[n,3] x, int64[2] s) => (float[a,b] y) { y = Reshape(x, s) }"


def plan(text, **metadata):
    model = onnx.parser.parse_model(HEAD + text)
    onnx.helper.set_model_props(model, metadata)
    return model.SerializeToString()


def open_session(text, given=None, *, profile=False, **metadata):
    interface = SessionInterface(ir.from_onnx_text(HEAD + text))
    trt = bindings()
    options = {"profile": profile, "interface": interface}
    return TensorRtSession(trt, given or plan(text, **metadata), BuildLog(trt), **options)


@pytest.fixture
def session(gpu):
    """Make sessions that end with the test, and look whether all was given back."""
    made = []

    def make(text, **options):
        made.append(open_session(text, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
        one.close()
    gc.collect()
    assert gpu.alive == (0, 0, 0, 0)


def sample(*shape):
    return np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)


def test_layers_are_told_with_their_times_where_they_are_profiled(session):
    named = PRODUCT.replace("y = MatMul", "[mm] y = MatMul")
    feeds = {"x": sample(2, 3), "w": sample(3, 2)}
    for profile, seconds in ((True, 0.002), (False, None)):
        one = session(named, profile=profile)
        for _ in range(3):
            one.run(feeds)
        assert layers_of(one) == [EngineLayer("mm", "MatMul", seconds=seconds)]


def test_what_is_fed_comes_back_computed(session):
    x, w = sample(2, 3), sample(3, 2)
    done = session(PRODUCT).run({"x": x, "w": w})
    np.testing.assert_allclose(done["y"], x @ w)
    assert done["y"].dtype == np.float32


def test_results_outlive_the_next_run_and_the_session(session):
    one = session(DYNAMIC)
    first = one.run({"x": sample(1, 3)})["y"]
    one.run({"x": 7 * sample(1, 3)})
    one.close()
    np.testing.assert_array_equal(first, [[-1, -2, -3]])
    with pytest.raises(EngineError, match="the session is closed"):
        one.run({"x": sample(1, 3)})


def test_shapes_that_the_data_decide_are_asked_for_while_it_runs(session, gpu):
    one = session(NON_ZERO, unknown="y")
    for values, where in (([0, 1, 0, 2], [[1, 3]]), ([0, 0, 0, 0], [[]]), ([1] * 4, None)):
        x = np.array(values, np.float32)
        done = one.run({"x": x})
        np.testing.assert_array_equal(done["y"], [[0, 1, 2, 3]] if where is None else where)
        np.testing.assert_array_equal(done["z"], -x)
        assert done["y"].dtype == np.int64
    assert list(one.run({"x": x}, ["z"])) == ["z"]


def test_no_memory_for_such_an_output_is_an_error_and_not_a_wrong_result(session, gpu):
    one = session(NON_ZERO, unknown="y")
    one.run({"x": np.zeros(4, np.float32)})
    gpu.fail("cuMemAlloc_v2", 2)
    with pytest.raises(EngineError, match="CUDA_ERROR_OUT_OF_MEMORY"):
        one.run({"x": np.ones(4, np.float32)})
    gpu.fail("cuMemAlloc_v2", 0)
    done = one.run({"x": np.ones(4, np.float32)})
    np.testing.assert_array_equal(done["y"], [[0, 1, 2, 3]])


def test_inputs_that_decide_shapes_stay_on_the_host(session, gpu):
    one = session(RESHAPED, host="s")
    feeds = {"x": sample(2, 3), "s": np.array([3, 2], np.int64)}
    np.testing.assert_array_equal(one.run(feeds)["y"], sample(3, 2))
    assert gpu.count("cuMemcpyHtoDAsync_v2") == 1
    with pytest.raises(EngineError, match=r"s may be \[1, 1\] to \[100, 100\]"):
        one.run({**feeds, "s": np.array([1, 101], np.int64)})


def test_the_profile_that_holds_the_shapes_is_taken_and_kept(session):
    one = session(DYNAMIC, profiles="3")
    context = one._loaded.context
    for rows, used in ((4, [0]), (9, [0, 2]), (5, [0, 2]), (2, [0, 2, 0]), (2, [0, 2, 0])):
        one.run({"x": sample(rows, 3)})
        assert context.profiles == used


def test_shapes_beyond_every_profile_are_told_with_what_fits(session):
    with pytest.raises(EngineError) as failure:
        session(DYNAMIC, profiles="2").run({"x": sample(9, 3)})
    assert failure.value.message == (
        "no profile of the engine holds x of shape [9, 3]: x may be [1, 3] to [4, 3]"
    )
    assert "profiles" in failure.value.help


@each_of("method", "set_input_shape", "set_tensor_address", "execute_async_v3")
def test_what_tensorrt_refuses_is_told_with_its_log(session, method):
    one = session(DYNAMIC, refuse=method)
    with pytest.raises(EngineError, match=f"TensorRT .*: {method} is refused") as failure:
        one.run({"x": sample(2, 3)})
    assert f"ERROR: {method} is refused" in failure.value.where


def test_a_fault_of_the_gpu_is_a_crash_and_close_does_not_hide_it(session, gpu):
    one = session(DYNAMIC)
    gpu.fail("cuStreamSynchronize", 700)
    with pytest.raises(EngineCrashedError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        one.run({"x": sample(2, 3)})
    gpu.fail("cuStreamSynchronize", 0)


def test_an_engine_for_another_gpu_is_refused_with_what_was_logged(gpu):
    with pytest.raises(
        EngineUnavailableError, match=r"for compute capability 7\.5"
    ) as failure:
        open_session(DYNAMIC, b"of another GPU")
    assert "build it on this machine" in failure.value.help
    assert gpu.alive == (0, 0, 0, 0)


def test_a_type_that_numpy_lacks_is_refused_before_anything_runs(gpu):
    text = "(int4[4] x) => (float[4] y) { y = Cast<to=1>(x) }"
    with pytest.raises(UnsupportedModelError, match="'x' is int4"):
        open_session(text)
    assert gpu.alive == (0, 0, 0, 0)


def test_feeds_that_do_not_fit_are_told(session):
    one = session(DYNAMIC)
    with pytest.raises(EngineError, match="the input 'x' is not fed"):
        one.run({})
    with pytest.raises(EngineError, match="is fed float64"):
        one.run({"x": np.ones((2, 3))})
