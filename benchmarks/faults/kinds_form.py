"""``python -m benchmarks faults-by-kind``: wrong and right passes by the kind of mistake.

The form is that of :mod:`benchmarks.faults.form`; a family is a kind of wrong or right passes.
``model TEXT`` and ``opset``, or ``net PATH CHANGE``, is the model; ``swap OLD -> NEW`` a pass
that replaces pieces of it, ``feed`` the inputs that show what is wrong. Networks are in
``out/networks``. A wrong pass is wrong everywhere.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from string import Template
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper, parser

from benchmarks.faults import form
from benchmarks.faults.case import EVERYWHERE, Fault, Setting, Source
from benchmarks.faults.kinds_cases import TEXT, TEXTS
from benchmarks.faults.runner import judge, keep, run
from onnx_passes.passes.base import Pass

Array: TypeAlias = np.ndarray[Any, Any]
Build: TypeAlias = Callable[[], onnx.ModelProto]

SEEN_BY: tuple[Setting, ...] = ("default", "adversarial")

NETWORKS = Path(__file__).parents[2] / "out" / "networks"
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


def rnd(*shape: int, scale: float = 1.0, shift: float = 0.0, dtype: Any = np.float32) -> Array:
    """Return normal numbers, the same ones for the same shape."""
    drawn = np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape)
    return np.asarray(drawn * scale + shift, dtype)


def ids(*shape: int, high: int = 50) -> Array:
    """Return integers from 1 to ``high - 1``, in an order that repeats."""
    return np.asarray(np.arange(np.prod(shape)) * 7 % (high - 1) + 1, np.int64).reshape(shape)


def m(text: str, opset: int = 21) -> onnx.ModelProto:
    """Read a model, in which ``$NX`` is a piece of text of that name.

    Behind ``|`` are random weights, ``w 8x8 float16``, and numbers, ``c 8.0``.
    """
    text, _, weights = Template(text).substitute(TEXTS).partition("|")
    proto = parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : {opset}, "local" : 1]> g ' + text
    )
    for weight in weights.split(",") if weights else ():
        name, shape, *dtype = weight.split()
        data = (
            np.float32(shape) if "." in shape else rnd(*map(int, shape.split("x")), scale=0.3)
        )
        data = data.astype(dtype[0] if dtype else np.float32)
        proto.graph.initializer.append(numpy_helper.from_array(data, name))
    return proto


def net(path: str, *changes: Callable[[onnx.GraphProto], None]) -> Build:
    """Read an exported network, or one of onnx's light models, and change it."""

    def build() -> onnx.ModelProto:
        folder = LIGHT if path.startswith("light_") else NETWORKS
        proto = onnx.load(folder / f"{path}.onnx")
        for change in changes:
            change(proto.graph)
        return proto

    return build


def free(graph: onnx.GraphProto) -> None:
    """Make height and width of the pictures that a network takes dynamic."""
    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        dims = value.type.tensor_type.shape.dim
        if len(dims) == 4 and value.name not in {i.name for i in graph.initializer}:
            names = ("height", "width")
            if value in graph.output:
                names = ("out_height", "out_width")
            dims[2].dim_param, dims[3].dim_param = names


def relus_bounded(high: float, graph: onnx.GraphProto) -> None:
    """Make each Relu a Clip from 0 to ``high``."""
    for name, number in (("bound_0", 0.0), ("bound_1", high)):
        graph.initializer.append(numpy_helper.from_array(np.float32(number), name))
    for node in graph.node:
        if node.op_type == "Relu":
            node.op_type = "Clip"
            node.input.extend(["bound_0", "bound_1"])


def relus_guarded(high: float, graph: onnx.GraphProto) -> None:
    """Make each Relu an If: beyond ``high`` its result is bounded."""
    nodes, replaced = list(graph.node), []
    for name, number in (("bound_0", 0.0), ("bound_1", high)):
        graph.initializer.append(numpy_helper.from_array(np.float32(number), name))
    for i, node in enumerate(nodes):
        if node.op_type != "Relu":
            replaced.append(node)
            continue
        branches = []
        for name, extra in (("Relu", []), ("Clip", ["bound_0", "bound_1"])):
            out = helper.make_tensor_value_info(f"{name}_{i}", 1, [None] * 4)
            inner = helper.make_node(name, [node.input[0], *extra], [out.name])
            branches.append(helper.make_graph([inner], f"{name}_{i}", [], [out]))
        replaced += [
            helper.make_node("ReduceMax", [node.input[0]], [f"most_{i}"], keepdims=0),
            helper.make_node("Less", [f"most_{i}", "bound_1"], [f"usual_{i}"]),
            helper.make_node(
                "If",
                [f"usual_{i}"],
                [node.output[0]],
                then_branch=branches[0],
                else_branch=branches[1],
            ),
        ]
    del graph.node[:]
    graph.node.extend(replaced)


def scaled(model: ir.Model, factor: float, name: str) -> None:
    """Multiply a weight."""
    value = model.graph.initializers[name]
    assert value.const_value is not None
    array = value.const_value.numpy()
    value.const_value = ir.tensor((array * np.float64(factor)).astype(array.dtype))


def far(*shape: int, value: float = 1e6) -> Array:
    """Return ordinary numbers, the first one far away."""
    array = rnd(*shape)
    array.flat[0] = value
    return array


def replaced(new: str, opset: int, model: ir.Model) -> None:
    """Make a model another one."""
    result = ir.from_proto(m(new, opset))
    model.graph = result.graph
    model.functions.clear()
    model.functions.update(result.functions)


PADDED = np.array([[1, 1, 1, 0, 0], [0, 0, 0, 0, 0]], np.int64)
NAMES = (far, free, ids, partial, relus_bounded, relus_guarded, replaced, rnd, scaled)
form.ENV |= {each.__name__: each for each in NAMES} | {"PADDED": PADDED}
form.ENV["src"] = lambda value, place: value.producer().inputs[place]


def read(text: str) -> Iterator[tuple[str, Fault | tuple[type[Pass], Source]]]:
    """Yield the kind of each entry, and the fault, or the right pass and its model."""
    kind = ""
    for row in form.entries(text):
        if row[""][0].startswith("== "):
            kind = row[""][0].removeprefix("== ")
            continue
        name, sign = row.pop("")[0].split()
        opset = int(row.get("opset", ["21"])[0])
        if "net" in row:
            path, _, change = row["net"][0].partition(" ")
            build = net(path, *([eval(change, form.ENV)] if change else []))
        else:
            build = partial(m, row["model"][0], opset)
        if "swap" in row:
            new = row["model"][0]
            for old, made in (swap.split(" -> ") for swap in row["swap"]):
                assert old in new, old
                new = new.replace(old, made)
            row["edit"] = [f"replaced({new!r}, {opset}, model)"]
        cls, source = form.made(__name__, name, sign, name, row), Source(name, build, build)
        if not kind.endswith("(wrong)"):
            yield kind, (cls, source)
            continue
        given = eval(f"dict({row['feed'][0]})", form.ENV) if "feed" in row else {}
        feeds = {key: np.asarray(value) for key, value in given.items()}
        yield kind, Fault(cls, source, EVERYWHERE, "adversarial", (feeds,) if feeds else ())


def tables() -> list[str]:
    """Return by kind how many wrong passes are caught, and right ones accused."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for kind, entry in read(TEXT):
        row = counts[kind]
        row["passes"] += 1
        if isinstance(entry, tuple):
            row["accused"] += bool(keep(*entry, full=False).accused)
            continue
        seen = [
            judge(run(entry, EVERYWHERE, full=False, setting=setting), entry, EVERYWHERE)
            for setting in SEEN_BY
        ]
        for setting, found in zip(SEEN_BY, seen, strict=True):
            row[setting] += found.caught
        if not any(found.caught for found in seen):
            print(f"{kind}: {entry.name}: {seen[0].verdict}", flush=True)
    columns = ("passes", *SEEN_BY, "accused")
    lines = [f"| kind | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    return lines + [
        f"| {kind} | {' | '.join(str(row[name]) for name in columns)} |"
        for kind, row in counts.items()
    ]
