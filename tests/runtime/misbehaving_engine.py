"""ONNX Runtime, which does what it must not do on models that negate."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from onnx_passes.runtime.engines import register_engine
from onnx_passes.runtime.ort import OnnxRuntimeEngine


@dataclass(frozen=True)
class Misbehaving:
    how: str
    at: str = "run"
    name: str = "misbehaving"

    def describe(self):
        return {"engine": self.name}

    @contextmanager
    def prepare(self, model):
        provoked = any(node.op_type == "Neg" for node in model.graph.all_nodes())
        if provoked and self.at == "prepare":
            misbehave(self.how)
        with OnnxRuntimeEngine().prepare(model) as session:
            yield Session(session, self.how if provoked and self.at == "run" else "none")


@dataclass(frozen=True)
class Session:
    session: object
    how: str

    def run(self, feeds, outputs=None):
        misbehave(self.how)
        return self.session.run(feeds, outputs)


def misbehave(how):
    match how:
        case "segfault":
            os.write(2, b"about to read\n")
            ctypes.string_at(0)
        case "hang":
            ctypes.CDLL(None).sleep(1000)
        case "hang-with-lock":
            ctypes.PyDLL(None).sleep(1000)
        case "allocate":
            held = []
            while True:
                held.append(np.ones(1 << 20))
        case "allocate-in-c++":
            new = ctypes.CDLL("libstdc++.so.6")["_Znwm"]
            new.argtypes, new.restype = [ctypes.c_size_t], ctypes.c_void_p
            while True:
                new(1 << 24)
        case "exit":
            sys.exit(3)
        case "exit-in-c":
            os._exit(3)
        case "raise":
            raise ValueError("no")
        case "read":
            assert sys.stdin.read() == ""
            print("hello")
            os.write(1, b"hello\n")


@register_engine("misbehaving")
def make(options):
    return Misbehaving(**options)
