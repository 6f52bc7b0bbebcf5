"""A driver and bindings that stand in for a GPU: what runs on them says nothing of NVIDIA's.

The bindings take a serialised ONNX model for an engine, and compute with ONNX Runtime on what
lies at the addresses that they are given.
"""

import ctypes
import itertools
import os
import shutil
import subprocess
import time
import types
from enum import Enum
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

SOURCE = Path(__file__).with_name("fake_driver.c")


def compile_driver(folder):
    """Compile the driver; None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    library = Path(folder, "libfakecuda.so")
    command = [compiler, "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True)
    return library


class Members(Enum):
    """An enumeration as the bindings have them."""


DataType = Members("DataType", "FLOAT HALF BF16 INT8 INT32 INT64 BOOL UINT8 FP8 INT4 FP4 E8M0")
TensorLocation = Members("TensorLocation", "DEVICE HOST")
TensorIOMode = Members("TensorIOMode", "NONE INPUT OUTPUT")
Severity = Members("Severity", "INTERNAL_ERROR ERROR WARNING INFO VERBOSE")
LayerInformationFormat = Members("LayerInformationFormat", "ONELINE JSON")
TYPES = {
    onnx.TensorProto.FLOAT: DataType.FLOAT,
    onnx.TensorProto.INT64: DataType.INT64,
    onnx.TensorProto.BOOL: DataType.BOOL,
    onnx.TensorProto.INT4: DataType.INT4,
}
STREAM_ALIGNMENT = 256


class Listener:
    """Base of what the bindings call."""


class Engine:
    """What the bindings make of bytes; its model says what it is like.

    Metadata of the model: "profiles" is how often the profiles repeat, each twice as large;
    "host" are names of inputs whose values decide shapes. "unknown" are outputs whose shapes
    only the data decide. "refuse" names a method that gives False.
    """

    def __init__(self, logger, plan):
        self.logger = logger
        # Values that were made outputs need not say their types.
        self.model = onnx.shape_inference.infer_shapes(onnx.load_from_string(plan))
        given = {p.key: p.value for p in self.model.metadata_props}
        self.num_optimization_profiles = int(given.get("profiles", "1"))
        self.host = given.get("host", "").split()
        self.unknown = given.get("unknown", "").split()
        self.refuse = given.get("refuse", "")
        graph = self.model.graph
        weights = {tensor.name for tensor in graph.initializer}
        fed = [v for v in graph.input if v.name not in weights]
        self.values = {v.name: v for v in itertools.chain(fed, graph.output)}
        self.inputs = [v.name for v in fed]
        self.num_io_tensors = len(self.values)
        self.name = graph.name
        self.device_memory_size_v2 = 4096

    def get_tensor_name(self, index):
        return list(self.values)[index]

    def get_tensor_mode(self, name):
        return TensorIOMode.INPUT if name in self.inputs else TensorIOMode.OUTPUT

    def get_tensor_dtype(self, name):
        return TYPES[self.values[name].type.tensor_type.elem_type]

    def get_tensor_location(self, name):
        return TensorLocation.HOST if name in self.host else TensorLocation.DEVICE

    def is_shape_inference_io(self, name):
        return name in self.host

    def get_tensor_shape(self, name):
        dims = self.values[name].type.tensor_type.shape.dim
        return tuple(d.dim_value if d.HasField("dim_value") else -1 for d in dims)

    def get_tensor_profile_shape(self, name, profile_index):
        most = 4 * 2**profile_index
        return [
            tuple(size if d < 0 else d for d in self.get_tensor_shape(name))
            for size in (most // 4, most // 2, most)
        ]

    def get_tensor_profile_values(self, profile_index, name):
        count = self.get_tensor_shape(name)[0]
        return [[low] * count for low in (1, 2, 100)]

    def create_execution_context(self):
        return None if self.refuse == "create_execution_context" else Context(self)

    def create_engine_inspector(self):
        layers = [{"Name": n.name, "LayerType": n.op_type} for n in self.model.graph.node]
        text = str({"Layers": layers}).replace("'", '"')
        return types.SimpleNamespace(get_engine_information=lambda form: text)


class Context:
    """Runs an engine, on memory that others have."""

    def __init__(self, engine):
        self.engine, self.shapes, self.addresses = engine, {}, {}
        self.allocators, self.profiles = {}, [0]
        self.profiler = None
        self.session = ort.InferenceSession(
            engine.model.SerializeToString(), providers=["CPUExecutionProvider"]
        )

    def _takes(self, method):
        if self.engine.refuse == method:
            self.engine.logger.log(Severity.ERROR, f"{method} is refused")
        return self.engine.refuse != method

    def set_input_shape(self, name, shape):
        assert isinstance(shape, tuple)
        self.shapes[name] = shape
        return self._takes("set_input_shape")

    def set_tensor_address(self, name, memory):
        assert memory
        self.addresses[name] = memory
        return self._takes("set_tensor_address")

    def set_output_allocator(self, name, output_allocator):
        self.allocators[name] = output_allocator
        return True

    def set_optimization_profile_async(self, profile_index, stream_handle):
        assert stream_handle
        self.profiles.append(profile_index)
        return True

    def infer_shapes(self):
        return [name for name in self.engine.inputs if name not in self.shapes]

    def get_tensor_shape(self, name):
        return (-1,) if name in self.engine.unknown else self._results()[name].shape

    def _results(self):
        feeds = {}
        for name in self.engine.inputs:
            # Before the run the memory of an input has its values: copies are at once here.
            dtype = onnx.helper.tensor_dtype_to_np_dtype(
                self.engine.values[name].type.tensor_type.elem_type
            )
            array = np.empty(self.shapes[name], dtype)
            ctypes.memmove(array.ctypes.data, self.addresses[name], array.nbytes)
            feeds[name] = array
        outputs = [o.name for o in self.session.get_outputs()]
        return dict(zip(outputs, self.session.run(None, feeds), strict=True))

    def execute_async_v3(self, stream_handle):
        assert stream_handle
        if self.engine.refuse == "crash":
            self.engine.logger.log(Severity.ERROR, "the kernel is lost")
            os.abort()
        if self.engine.refuse == "hang":
            time.sleep(60)
        if not self._takes("execute_async_v3"):
            return False
        for node in self.engine.model.graph.node if self.profiler is not None else ():
            self.profiler.report_layer_time(node.name, 2.0)
        for name, array in self._results().items():
            array = np.ascontiguousarray(array)
            allocator = self.allocators.get(name)
            address = self.addresses.get(name)
            if allocator is not None:
                size = max(array.nbytes, 1)
                address = allocator.reallocate_output_async(
                    name, 0, size, STREAM_ALIGNMENT, stream_handle
                )
                if not address:
                    return False
                allocator.notify_shape(name, array.shape)
            ctypes.memmove(address, array.ctypes.data, array.nbytes)
        return True


class Runtime:
    """Makes engines of bytes."""

    def __init__(self, logger):
        self.logger = logger

    def deserialize_cuda_engine(self, plan):
        if plan == b"of another GPU":
            self.logger.log(Severity.ERROR, "the engine is for compute capability 7.5")
            return None
        return Engine(self.logger, plan)


class Network:
    """Holds what was parsed."""

    num_inputs = 0


class OnnxParser:
    """Takes every model."""

    def __init__(self, network, logger):
        self.network = network

    def parse(self, model):
        self.network.data = model
        return True


class Builder:
    """Writes the model down."""

    def __init__(self, logger):
        pass

    def create_network(self, flags):
        return Network()

    def create_builder_config(self):
        return types.SimpleNamespace(
            clear_flag=lambda flag: None,
            create_timing_cache=lambda known: types.SimpleNamespace(
                serialize=lambda: known or b"measured"
            ),
            set_timing_cache=lambda cache, ignore_mismatch: True,
        )

    def build_serialized_network(self, network, config):
        return network.data


def bindings():
    """Return what stands in for the bindings' module."""
    return types.SimpleNamespace(
        __version__="0.0",
        Builder=Builder,
        OnnxParser=OnnxParser,
        NetworkDefinitionCreationFlag=Listener,
        BuilderFlag=types.SimpleNamespace(TF32=0),
        ProfilingVerbosity=types.SimpleNamespace(DETAILED=0),
        ILogger=Listener,
        IOutputAllocator=Listener,
        IProfiler=Listener,
        Runtime=Runtime,
        DataType=DataType,
        TensorLocation=TensorLocation,
        TensorIOMode=TensorIOMode,
        LayerInformationFormat=LayerInformationFormat,
        init_libnvinfer_plugins=lambda logger, namespace: True,
        get_plugin_registry=lambda: None,
    )


class Control:
    """The fake driver, as a test sees it."""

    def __init__(self, library):
        self._library = ctypes.CDLL(str(library))

    def count(self, function):
        return self._library.fake_count(function.encode())

    def fail(self, function, code):
        """Let a function return an error from now on; 0 for none."""
        self._library.fake_fail(function.encode(), code)

    @property
    def alive(self):
        """What was taken and not given back: memory, pinned memory, streams, contexts."""
        lib = self._library
        return (
            lib.fake_live_device(),
            lib.fake_live_pinned(),
            lib.fake_streams(),
            lib.fake_contexts(),
        )


def plug_in(monkeypatch, folder):
    """Replace NVIDIA's driver by the fake one; None without a compiler."""
    from onnx_passes.runtime.tensorrt import cuda

    library = compile_driver(folder)
    if library is None:
        return None
    monkeypatch.setattr(cuda, "DRIVER", str(library))
    forget()
    return Control(library)


def plug_into_children(monkeypatch, folder):
    """Let child processes find the fake driver and the fake bindings by their real names."""
    control = plug_in(monkeypatch, folder)
    if control is None:
        return None
    place = Path(folder, "found-by-children")
    place.mkdir()
    shutil.copy(Path(folder, "libfakecuda.so"), place / "libcuda.so.1")
    (place / "tensorrt_rtx.py").write_text(
        "from tests.runtime.tensorrt import fake_gpu\n"
        "globals().update(vars(fake_gpu.bindings()))\n"
    )
    monkeypatch.setenv("LD_LIBRARY_PATH", str(place))
    monkeypatch.syspath_prepend(str(SOURCE.parents[3]))
    monkeypatch.syspath_prepend(str(place))
    return control


def forget():
    """Forget what was known of the machine."""
    from onnx_passes.runtime.tensorrt import cuda

    cuda._look.cache_clear()
    cuda._device.cache_clear()


def compile_into_models(monkeypatch):
    """Let engines be built by writing the model down, with the bindings above."""
    import onnx_ir as ir

    from onnx_passes.runtime.tensorrt import engine

    def build(package, options, model, log):
        del package, log
        plan = ir.to_proto(model).SerializeToString()
        if options.save:
            Path(options.save).write_bytes(plan)
        return plan

    monkeypatch.setattr(engine, "build", build)
    monkeypatch.setattr(engine, "load_bindings", lambda package: bindings())
    monkeypatch.setattr(engine, "installed_version", lambda package: "0.0 (fake)")
