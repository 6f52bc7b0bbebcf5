"""Every name of the bindings that the adapter uses exists in those that are installed."""

import ast
import re
from pathlib import Path

import pytest

from onnx_passes.errors import EngineUnavailableError
from onnx_passes.runtime import tensorrt
from onnx_passes.runtime.tensorrt.bindings import installed_version, load_bindings
from tests.runtime.tensorrt.api import PACKAGES, api
from tests.tables import each_of

# Whose attributes an expression of the adapter has; the adapter keeps to these names.
OWNERS = {
    "trt": None,
    "builder": "Builder",
    "network": "INetworkDefinition",
    "parser": "OnnxParser",
    "config": "IBuilderConfig",
    "made": "IOptimizationProfile",
    "tensor": "ITensor",
    "cache": "ITimingCache",
    "registry": "IPluginRegistry",
    "runtime": "Runtime",
    "self._runtime": "Runtime",
    "engine": "ICudaEngine",
    "self.engine": "ICudaEngine",
    "context": "IExecutionContext",
    "loaded.context": "IExecutionContext",
    "inspector": "EngineInspector",
    "error": "ParserError",
}
# In other files these names are something else.
ONLY_IN = {
    "error": {"parsing.py"},
    "engine": {"session.py", "bindings.py"},
    "runtime": {"session.py"},
    "loaded.context": {"session.py"},
}
FILES = ("engine.py", "parsing.py", "session.py", "bindings.py")
# Asked for by hasattr, as only one of the packages has it.
OPTIONAL = {"trt.ComputeCapability", "trt.ComputeCapability.__members__"}
OF_RTX = {
    "config.num_compute_capabilities",
    "config.set_compute_capability",
    "trt.ComputeCapability.CURRENT",
}
# What the bindings call, with the number of arguments that they give.
OVERRIDES = [
    ("ILogger", "log", 2),
    ("IOutputAllocator", "reallocate_output", 4),
    ("IOutputAllocator", "reallocate_output_async", 5),
    ("IOutputAllocator", "notify_shape", 2),
    ("IProfiler", "report_layer_time", 2),
]


def nodes(kind):
    """Yield the nodes of a kind in the adapter, with the path that each is or calls."""
    for name in FILES:
        tree = ast.parse((Path(tensorrt.__file__).parent / name).read_text())
        for node in ast.walk(tree):
            if isinstance(node, kind):
                path = ast.unparse(node.func if kind is ast.Call else node)
                owner = owner_of(path)
                known = owner is not None and name in ONLY_IN.get(owner, FILES)
                if known and path.replace(".", "").isidentifier():
                    yield path, node


def owner_of(path):
    """Return the expression whose attribute a path is; None for one that is not known."""
    found = [owner for owner in OWNERS if path.startswith(f"{owner}.")]
    return max(found, key=len, default=None)


def used():
    """Return what the adapter uses, as ``variable.attribute[.attribute]``."""
    return sorted({path for path, _ in nodes(ast.Attribute)})


def called():
    """Return the methods that the adapter calls, with the number of arguments."""
    counted = {
        (path, len(node.args))
        for path, node in nodes(ast.Call)
        if not any(isinstance(a, ast.Starred) for a in node.args)
    }
    # Handed to a function that calls it.
    passed = {
        ("self._runtime.deserialize_cuda_engine", 1),
        ("self.engine.create_execution_context", 0),
        ("trt.Runtime", 1),
    }
    return sorted(counted | passed)


def test_the_uses_are_found():
    assert {
        "trt.BuilderFlag.TF32",
        "parser.parse",
        "error.node_name",
        "context.execute_async_v3",
        "engine.get_tensor_profile_values",
        "self._runtime.deserialize_cuda_engine",
        "inspector.get_engine_information",
    } <= set(used())
    assert len(used()) > 70


def named(path):
    """Return a path of the adapter as the bindings have it: ``Builder.create_network``."""
    owner = owner_of(path)
    rest = path.removeprefix(f"{owner}.")
    return f"{OWNERS[owner]}.{rest}" if OWNERS[owner] else rest


def look_up(package):
    """Return the documentation of everything that the adapter uses."""
    paths = {named(path) for path in used()} | {named(path) for path, _ in called()}
    overridden = {f"{owner}.{method}" for owner, method, _ in OVERRIDES}
    classes = {owner for owner, _, _ in OVERRIDES}
    return api(package, tuple(sorted(paths | overridden | classes)))


def is_for(path, package):
    """Whether a package is to have what the adapter uses."""
    return package == "tensorrt-rtx" or path not in OPTIONAL | OF_RTX


@pytest.mark.tensorrt
@each_of("package", *PACKAGES)
def test_what_is_used_exists(package):
    there = look_up(package)
    wanted = [path for path in used() if is_for(path, package)]
    assert [path for path in wanted if named(path) not in there] == []


@pytest.mark.tensorrt
@each_of("package", *PACKAGES)
def test_what_is_called_takes_the_arguments(package):
    there = look_up(package)
    wrong = [
        (path, count)
        for path, count in called()
        if is_for(path, package) and not takes(there[named(path)][1], count)
    ]
    assert wrong == []


def takes(documentation, count):
    """Whether a call may have so many arguments, by the signatures that pybind11 writes.

    It writes one into the first line of the documentation, or one for each overload into lines
    of their own.
    """
    for line in documentation.splitlines():
        if ") -> " not in line:
            continue
        bound = 1 if "(self: " in line else 0
        names = re.findall(r"[(,] ?(\w+): ", line)
        required = re.findall(r"[(,] ?\w+: [^,=]+(?=[,)])", line)
        if len(required) - bound <= count <= len(names) - bound:
            return True
    return False


@pytest.mark.tensorrt
@each_of("package", *PACKAGES)
@each_of("owner, method, count", *OVERRIDES)
def test_what_the_bindings_call_is_overridden_as_they_call_it(owner, method, count, package):
    there = look_up(package)
    # Some overrides are not an attribute of the base, and only its documentation names them.
    documented = " ".join([there[owner][0], *there.get(f"{owner}.{method}", [])])
    signature = re.search(rf"{method}\(self[^,]*, ([^)]*)\)", documented)
    assert signature, (owner, documented)
    assert len(re.findall(r"(?:^|, )\w+(?=:|,|$)", signature[1])) == count, signature[0]
    ours = [
        node
        for name in FILES
        for node in ast.walk(ast.parse((Path(tensorrt.__file__).parent / name).read_text()))
        if isinstance(node, ast.FunctionDef) and node.name == method
    ]
    assert [len(node.args.args) - 1 for node in ours] == [count]


@each_of("package", "tensorrt", "tensorrt-rtx")
def test_a_package_that_is_absent_is_told_with_what_installs_it(package):
    if installed_version(package) is not None:
        pytest.skip(f"{package} is installed here")
    with pytest.raises(EngineUnavailableError) as failure:
        load_bindings(package)
    assert failure.value.message == f"{package} is not installed"
    assert failure.value.help == f"in a checkout: pip install '.[{package}]'"
