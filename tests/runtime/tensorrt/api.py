"""The API of installed bindings, read in a process of its own.

The bindings of tensorrt come from the public index without the libraries behind them. For
these, libraries are made that define every symbol that the bindings need, as data: the module
can be imported and its signatures read, and nothing can be called.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

from onnx_passes.runtime.tensorrt.bindings import installed_version

FOLDERS = "TENSORRT_BINDINGS"
PACKAGES = ["tensorrt-rtx", "tensorrt-10", "tensorrt-11"]
READ = """
import importlib, json, sys
trt = importlib.import_module(sys.argv[1])
found = {}
for path in json.loads(sys.stdin.read()):
    subject = trt
    for attribute in path.split("."):
        subject = getattr(subject, attribute, None)
        if subject is None:
            break
    else:
        called = subject.__init__ if isinstance(subject, type) else subject
        found[path] = [str(subject.__doc__ or ""), str(called.__doc__ or "")]
print(json.dumps(found))
"""


@cache
def api(package, paths):
    """Return the documentation of each path that exists, its own and that of its call.

    Args:
        package: One of PACKAGES; where it is not here, the test is skipped.
        paths: Tuple of paths such as "Builder.create_network".
    """
    environment = dict(os.environ)
    module = "tensorrt_rtx"
    if package == "tensorrt-rtx":
        if installed_version("tensorrt-rtx") is None:
            pytest.skip("tensorrt-rtx is not installed")
    else:
        module = "tensorrt_bindings"
        folder = folder_of(package.rpartition("-")[2])
        libraries = stand_ins(folder / module / "tensorrt.so")
        environment |= {"PYTHONPATH": str(folder), "LD_LIBRARY_PATH": str(libraries)}
    done = subprocess.run(
        [sys.executable, "-c", READ, module],
        input=json.dumps(paths),
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def folder_of(version):
    """Return the folder with the bindings of a version of tensorrt."""
    for folder in filter(None, os.environ.get(FOLDERS, "").split(os.pathsep)):
        if list(Path(folder).glob(f"tensorrt_*bindings-{version}.*.dist-info")):
            return Path(folder)
    pytest.skip(f"the bindings of tensorrt {version} are not here: make tensorrt fetches them")


@cache
def stand_ins(bindings):
    """Make libraries that stand in for those that bindings need; nothing in them runs."""
    if not all(map(shutil.which, ("gcc", "readelf", "nm"))):
        pytest.skip("there is no gcc with binutils to stand in for NVIDIA's libraries")
    folder = Path(tempfile.mkdtemp(prefix="onnx-passes-stand-ins-"))
    needed = re.findall(r"\(NEEDED\).*\[(libnv[^]]+)\]", output("readelf", "-d", bindings))
    symbols = re.findall(r" [UV] ([^@\s]+)$", output("nm", "-D", bindings), re.M)
    source = folder / "symbols.s"
    lines = [f".globl {s}\n.type {s}, @object\n{s}: .zero 8\n" for s in sorted(set(symbols))]
    stack = '.section .note.GNU-stack,"",@progbits\n'
    source.write_text(f".data\n{''.join(lines)}.zero 4096\n{stack}")
    empty = folder / "empty.s"
    empty.write_text(stack)
    for index, name in enumerate(needed):
        of = empty if index else source
        output("gcc", "-shared", "-o", folder / name, of, f"-Wl,-soname,{name}")
    return folder


def output(*command):
    """Return what a command prints."""
    words = [str(word) for word in command]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout
