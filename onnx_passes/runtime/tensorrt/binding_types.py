"""What is used of the objects of TensorRT's bindings, which have no types of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class TrtMember(Protocol):
    """A member of an enumeration."""

    name: str


class TrtCreator(Protocol):
    """A plugin of the registry."""

    name: str
    plugin_version: str
    plugin_namespace: str


class TrtParserError(Protocol):
    """Why the parser refuses a model."""

    def code(self) -> object: ...
    def desc(self) -> str: ...
    def local_function_stack(self) -> Sequence[str]: ...
    def node(self) -> int: ...
    def node_name(self) -> str: ...
    def node_operator(self) -> str: ...


class TrtParser(Protocol):
    """A parser of ONNX."""

    num_errors: int

    def get_error(self, index: int) -> TrtParserError: ...
    def parse(self, model: bytes) -> bool: ...
    def parse_from_file(self, model: str) -> bool: ...


class TrtTensor(Protocol):
    """An input of a network."""

    name: str
    shape: Sequence[int]
    is_shape_tensor: bool


class TrtNetwork(Protocol):
    """A parsed model."""

    num_inputs: int

    def get_input(self, index: int) -> TrtTensor: ...


class TrtProfile(Protocol):
    """A profile that is being written."""

    def set_shape(
        self, input: str, min: Sequence[int], opt: Sequence[int], max: Sequence[int]
    ) -> None: ...
    def set_shape_input(
        self, input: str, min: Sequence[int], opt: Sequence[int], max: Sequence[int]
    ) -> None: ...


class TrtBuilder(Protocol):
    """A builder, as far as profiles need it."""

    def create_optimization_profile(self) -> TrtProfile: ...


class TrtCache(Protocol):
    """A timing cache."""

    def serialize(self) -> bytes: ...


class TrtConfig(Protocol):
    """The config of a builder."""

    builder_optimization_level: int
    hardware_compatibility_level: TrtMember
    num_compute_capabilities: int
    plugins_to_serialize: Sequence[str]
    profiling_verbosity: TrtMember

    def add_optimization_profile(self, profile: TrtProfile) -> int: ...
    def clear_flag(self, flag: TrtMember) -> None: ...
    def create_timing_cache(self, serialized_timing_cache: bytes) -> TrtCache | None: ...
    def set_compute_capability(self, capability: TrtMember, index: int) -> bool: ...
    def set_flag(self, flag: TrtMember) -> None: ...
    def set_memory_pool_limit(self, pool: TrtMember, pool_size: int) -> None: ...
    def set_timing_cache(self, cache: TrtCache, ignore_mismatch: bool) -> bool: ...


class TrtInspector(Protocol):
    """What reports the layers of an engine."""

    def get_engine_information(self, format: TrtMember) -> str: ...


class TrtContext(Protocol):
    """A context in which an engine runs."""

    profiler: object
    unfused_tensors_debug_state: bool

    def execute_async_v3(self, stream_handle: int) -> bool: ...
    def get_tensor_shape(self, name: str) -> Sequence[int]: ...
    def infer_shapes(self) -> Sequence[str]: ...
    def set_debug_listener(self, listener: object) -> bool: ...
    def set_input_shape(self, name: str, shape: Sequence[int]) -> bool: ...
    def set_optimization_profile_async(
        self, profile_index: int, stream_handle: int
    ) -> bool: ...
    def set_output_allocator(self, name: str, output_allocator: object) -> bool: ...
    def set_tensor_address(self, name: str, memory: int) -> bool: ...


class TrtEngine(Protocol):
    """An engine that is loaded."""

    device_memory_size_v2: int
    name: str
    num_io_tensors: int
    num_optimization_profiles: int

    def create_engine_inspector(self) -> TrtInspector: ...
    def create_execution_context(self) -> TrtContext | None: ...
    def get_tensor_dtype(self, name: str) -> TrtMember: ...
    def get_tensor_location(self, name: str) -> TrtMember: ...
    def get_tensor_mode(self, name: str) -> TrtMember: ...
    def get_tensor_name(self, index: int) -> str: ...
    def get_tensor_profile_shape(
        self, name: str, profile_index: int
    ) -> Sequence[Sequence[int]]: ...
    def get_tensor_profile_values(
        self, profile_index: int, name: str
    ) -> Sequence[Sequence[int]]: ...
    def get_tensor_shape(self, name: str) -> Sequence[int]: ...
    def is_shape_inference_io(self, name: str) -> bool: ...


class TrtRuntime(Protocol):
    """What makes engines of bytes."""

    engine_host_code_allowed: bool

    def deserialize_cuda_engine(self, serialized_engine: bytes) -> TrtEngine | None: ...
