"""Inputs of people who are in a hurry, or here for the first time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.bad_inputs.case import Case
from benchmarks.bad_inputs.hostile import model

M = "model.onnx"
DATA = ("compare", M, M, "--data", "x.npy")
MISTYPED = (
    *("inspct", "comapre", "reduec", "certfy", "lnt", "bulid", "santize", "exract"),
    *("rneame", "dif", "explan", "confg", "repotr", "bisct", "insret", "strip-weight"),
    *("restore-weihgts", "prun", "lits", "new-pas", "dta", "rn"),
)
WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("a pipeline as a pass", (M, "optimize")),
    ("a pipeline as a pass", (M, "tensorrt")),
    ("two pipelines", ("-c", "optimize", "-c", "cleanup", M)),
    ("two outputs", ("-c", "cleanup", "-o", "a.onnx", "-o", "b.onnx", M)),
    ("two reports", ("-c", "cleanup", "--json", "a", "--json", "b", M)),
    ("a mistyped pipeline", ("-c", "optimise", M)),
    ("a mistyped pass", (M, "fuse-gello")),
    ("a pass in camel case", (M, "FuseGelu")),
    ("a pass with underscores", (M, "fuse_gelu")),
    ("an option that a pass lacks", (M, "fold-constants{size=3}")),
    ("an option of another type", (M, "fold-constants{size_limit=much}")),
    ("a brace that is not closed", (M, "fold-constants{size_limit=1")),
    ("a model that is not there", ("-c", "optimize", "modle.onnx")),
    ("a folder as a model", ("-c", "optimize", ".")),
    ("no model", ("-c", "optimize")),
    ("the model as pipeline", ("-c", M, "optimize")),
    ("a pipeline file as a model", ("-c", "optimize", "p.yaml")),
    ("an image as a model", ("-c", "optimize", "x.npy")),
    ("an empty file as a model", ("-c", "optimize", "empty.onnx")),
    ("an empty pipeline file", ("-c", "empty.yaml", M)),
    ("a mistyped key", ("-c", "key.yaml", M)),
    ("tabs in YAML", ("-c", "tabs.yaml", M)),
    ("a text as a list", ("-c", "text.yaml", M)),
    ("-s without a value", ("-c", "cleanup", "-s", "verify.scope", M)),
    ("-s with a mistyped key", ("-c", "cleanup", "-s", "verfy.scope=model", M)),
    ("-s with a wrong value", ("-c", "cleanup", "-s", "verify.scope=all", M)),
    ("an output that is a folder", ("-c", "cleanup", "-o", ".", M)),
    ("a report in the model's place", ("-c", "cleanup", "-o", "a.onnx", "--json", M, M)),
    ("an output that is the pipeline", ("-c", "p.yaml", "-o", "p.yaml", M)),
    ("an option that is not there", ("-c", "cleanup", "--verbos", M)),
    ("an option without its value", ("-c", "cleanup", M, "-o")),
    ("labels without inputs", ("--precision", "int8", "--labels", "x.npy", M)),
    ("a mistyped metric", ("--precision", "int8", "--metric", "cosin=0.9:1", M)),
    ("a node to keep that is not there", ("--keep", "nothing", M)),
    ("a question about no rule", ("--why-not", "fuse-gello", M)),
    ("a report on standard output", (M, "--json", "-")),
    ("a precision and no passes", (M, "--no-passes", "--precision", "int8")),
    ("a limit that is not a number", ("-c", "cleanup", "--rewrite-limit", "few", M)),
    ("a colour that is none", ("inspect", M, "--color", "blue")),
    ("inspect without a model", ("inspect",)),
    ("inspect what is not there", ("inspect", "none.onnx")),
    ("a wrong --show", ("inspect", M, "--show", "nodes")),
    ("data as a model", ("inspect", "x.npy")),
    ("a model as data", ("inspect", "data", M)),
    ("data that is not there", ("inspect", "data", "none.npz")),
    ("a command of data, mistyped", ("data", "mrge", "x.npy")),
    ("data without a command", ("data", "x.npy")),
    ("a form that is unknown", ("data", "convert", "x.npy", "-o", "x.csv")),
    ("compare nothing", ("compare",)),
    ("compare with an engine that is not there", ("compare", M, "--engine", "torch")),
    ("a provider that is not there", ("compare", M, "--engine", "onnxruntime:Fast")),
    ("compare with data for another model", ("compare", M, "--inputs", "x.npy")),
    ("an input that the model lacks", ("compare", M, "--inputs", "z.npz")),
    ("a value that is not there", ("compare", M, M, "--outputs", "nothing")),
    ("a tolerance that is none", ("compare", M, M, "--tolerance", "small")),
    ("a judge that is none", ("compare", M, M, "--compare", "best")),
    ("--accuracy without data", ("compare", M, M, "--accuracy", "drop=1%")),
    ("--accuracy without labels", (*DATA, "--accuracy", "drop=1%")),
    ("a data set that is not there", ("compare", M, M, "--data", "none/")),
    ("a data set without data", ("compare", M, M, "--data", "folder")),
    ("a batch of none", ("compare", M, M, "--data", "x.npy", "--batch", "0")),
    ("no worker processes", (*DATA, "--jobs", "0")),
    ("diff with one model", ("diff", M)),
    ("diff with data", ("diff", M, "x.npy")),
    ("extract of a value that is not there", ("extract", M, "-o", "a.onnx", "--outputs", "q")),
    ("reduce without a check", ("reduce", M, "-o", "a.onnx")),
    ("reduce what does not fail", ("reduce", M, "-o", "a.onnx", "--check", "true {model}")),
    ("sanitize without a job", ("sanitize", M, "-o", "a.onnx")),
    ("a shape that is none", ("sanitize", M, "-o", "a.onnx", "--shape", "x:big")),
    ("a shape of no input", ("sanitize", M, "-o", "a.onnx", "--shape", "q:1x2")),
    ("explain nothing", ("explain",)),
    ("explain what is not there", ("explain", "fuse-everything")),
    ("list what is not there", ("list", "banana")),
    ("certify what is not there", ("certify", "banana")),
    ("certify for no time", ("certify", "merge-clips", "--time", "0")),
    ("a report that is none", ("report", M)),
    ("a new pass with a bad name", ("new-pass", "My Pass!")),
    ("config check of a model", ("config", "check", M)),
    ("build without an engine", ("build", M)),
    ("view what is not there", ("view", "none.onnx")),
    ("a page in the model's place", ("view", M, "-o", M)),
    ("view with a report that is none", ("view", M, "--report", M)),
    ("view with inputs of another model", ("view", M, "--load-inputs", "z.npz")),
    ("certify the passes of no pipeline", ("certify", "-c", "none.yaml")),
    ("a name that is taken", ("rename", M, "-o", "a.onnx", "--value", "input=output")),
    ("words that mean nothing", ("please", "optimise", "my", "model")),
    ("a number", ("42",)),
    ("a URL as a model", ("-c", "optimize", "https://example.org/model.onnx")),
)  # fmt: skip


def cases(folder: Path) -> Iterator[Case]:
    """Yield them; their files are written to a folder."""
    (folder / M).write_bytes(model().SerializeToString())
    np.save(folder / "x.npy", np.ones((3, 5), np.int32))
    np.savez(folder / "z.npz", z=np.ones((1, 2), np.float32))
    (folder / "empty.onnx").touch()
    (folder / "folder").mkdir(exist_ok=True)
    texts = {
        "p": "passes: [eliminate-identity]\n",
        "empty": "",
        "key": "pases: [eliminate-identity]\n",
        "tabs": "passes:\n\t- eliminate-identity\n",
        "text": "passes: eliminate identity\n",
    }
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    for word in MISTYPED:
        yield Case("a mistyped command", (word, M))
    for told, words in WORDS:
        yield Case(told, words)
