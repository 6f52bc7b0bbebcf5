"""Every name of the bindings that the adapter uses exists in those that are installed."""

import ast
import re
from pathlib import Path

import pytest

from onnx_passes.errors import EngineUnavailableError
from onnx_passes.runtime import tensorrt
from onnx_passes.runtime.tensorrt.bindings import installed_version, load_bindings

# Whose attributes a variable of the adapter has; the adapter keeps to these names.
OWNERS = {
    "trt": None,
    "builder": "Builder",
    "network": "INetworkDefinition",
    "parser": "OnnxParser",
    "config": "IBuilderConfig",
    "made": "IOptimizationProfile",
    "tensor": "ITensor",
    "cache": "ITimingCache",
}
FILES = ("build.py", "parse.py", "profiles.py", "log.py")
# Asked for by hasattr, as only one of the packages has it.
OPTIONAL = {"trt.ComputeCapability", "trt.ComputeCapability.__members__"}
OF_RTX = {"config.num_compute_capabilities", "config.set_compute_capability"}


def nodes(kind):
    """Yield the nodes of a kind in the adapter, with the path that each is or calls."""
    for name in FILES:
        tree = ast.parse((Path(tensorrt.__file__).parent / name).read_text())
        for node in ast.walk(tree):
            if isinstance(node, kind):
                path = ast.unparse(node.func if kind is ast.Call else node)
                variable = path.partition(".")[0]
                known = variable in OWNERS or (variable == "error" and name == "parse.py")
                if "." in path and known and path.replace(".", "").isidentifier():
                    yield path, node


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
    return sorted(counted)


def test_the_uses_are_found():
    assert {"trt.Builder", "trt.BuilderFlag.TF32", "parser.parse", "error.node_name"} <= set(
        used()
    )
    assert len(used()) > 25


@pytest.mark.tensorrt
@pytest.mark.parametrize("package", ["tensorrt-rtx", "tensorrt"])
@pytest.mark.parametrize("path", used())
def test_what_is_used_exists(path, package):
    subject = look_up(path, package)
    assert subject is not None


@pytest.mark.tensorrt
@pytest.mark.parametrize("package", ["tensorrt-rtx", "tensorrt"])
@pytest.mark.parametrize(("path", "count"), called())
def test_what_is_called_takes_the_arguments(path, count, package):
    subject = look_up(path, package)
    if isinstance(subject, type):
        subject = subject.__init__
    # pybind11 writes the signature into the first line of the docstring, of each overload
    # into a line of its own.
    signatures = [line for line in (subject.__doc__ or "").splitlines() if "self" in line]
    assert signatures, path
    parameters = [re.findall(r"[(,] ?(\w+): ", line) for line in signatures]
    required = [len(re.findall(r"[(,] ?\w+: [^,=]+(?=[,)])", line)) for line in signatures]
    assert any(
        least - 1 <= count <= len(names) - 1
        for names, least in zip(parameters, required, strict=True)
    ), signatures


def look_up(path, package):
    """Return what the installed bindings have under a path; skip without them."""
    if installed_version(package) is None:
        pytest.skip(f"{package} is not installed")
    if package == "tensorrt" and path in OPTIONAL | OF_RTX:
        pytest.skip("only tensorrt-rtx has it")
    trt = load_bindings(package)
    variable, *attributes = path.split(".")
    owners = {**OWNERS, "error": "ParserError"}
    subject = trt if owners[variable] is None else getattr(trt, owners[variable])
    for attribute in attributes:
        assert hasattr(subject, attribute), path
        subject = getattr(subject, attribute)
    return subject


@pytest.mark.parametrize("package", ["tensorrt", "tensorrt-rtx"])
def test_a_package_that_is_absent_is_told_with_what_installs_it(package):
    if installed_version(package) is not None:
        pytest.skip(f"{package} is installed here")
    with pytest.raises(EngineUnavailableError) as failure:
        load_bindings(package)
    assert failure.value.message == f"{package} is not installed"
    assert failure.value.help == f"pip install 'onnx-passes[{package}]'"
