from __future__ import annotations

import os
import platform

import onnx

import onnx_passes
from onnx_passes.runtime.environment import machine, versions


def test_versions_are_those_installed():
    found = versions()
    assert found["onnx"] == onnx.__version__
    assert found["python"] == platform.python_version()
    assert found["onnx-passes"] == onnx_passes.__version__
    assert {"onnx-ir", "onnxruntime", "numpy"} <= set(found)


def test_the_machine_is_described_without_its_name():
    facts = machine()
    assert {"cpu", "cores", "os", "architecture"} <= set(facts)
    assert int(facts["cores"]) >= 1
    text = " ".join(facts.values())
    assert platform.node() not in text.split()
    assert os.path.expanduser("~") not in text
