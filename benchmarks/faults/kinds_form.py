"""How a case of `benchmarks.faults.kinds_cases` is written: a model, a pass and a witness."""

from __future__ import annotations

import inspect
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import Template
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper, parser

from benchmarks.faults.case import array, attribute, attributes, constant
from onnx_passes import passes
from onnx_passes.passes.base import Pass, RewriteRulePass, Transformation

Array: TypeAlias = np.ndarray[Any, Any]
Build: TypeAlias = Callable[[], onnx.ModelProto]
Spec: TypeAlias = tuple[tuple[type, ...], dict[str, Any], Any]

TEXTS: dict[str, str] = {}
"""Pieces of text of models, by name."""

NETWORKS = Path("/tmp/yard-cache/networks")
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


@dataclass(frozen=True)
class Case:
    """A pass on a model.

    Attributes:
        kind: The kind of mistake, or of right pass.
        name: Name of the case and of its pass.
        half: "seen" or "held-back".
        model: Builds the model.
        cls: The pass.
        wrong: Whether the pass is wrong on this model.
        feed: Inputs on which a wrong pass differs, and on which a right one agrees. None for
            a model that draws random numbers.
    """

    kind: str
    name: str
    half: str
    model: Build
    cls: type[Pass]
    wrong: bool
    feed: dict[str, Array] | None


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


def num(value: Any) -> Array:
    """Return the constant that a value is, NaN for none."""
    found = array(value)
    return np.asarray(np.nan) if found is None else found


def src(value: Any, place: int) -> Any:
    """Return an operand of the node that computes a value."""
    return value.producer().inputs[place]


ENV = {"np": np, "num": num, "at": attribute, "attrs": attributes, "src": src}


def _code(text: str) -> str:
    return re.sub(r"(?<![\w.])([A-Z]\w*)\(", r"op.\1(", text)


def rule(promise: Any, pattern: str, rewrite: str, when: str = "True") -> Spec:
    """Make a rewrite from expressions over operators.

    Small letters in ``pattern`` are variables. ``rewrite`` and ``when`` have them, and ``num``
    (a constant), ``at`` (an attribute), ``attrs`` (all of them), ``k`` (makes a constant).
    """
    bare = re.sub(r"\"[^\"]*\"|'[^']*'", "", pattern)
    names = dict.fromkeys(re.findall(r"(?<![\w.])([a-z]\w*)\b(?!\s*[(=.])", bare))
    for name in re.findall(r"(\w+) :=", bare):
        names.pop(name, None)
    match = eval(f"lambda _, op, {', '.join(names)}: {_code(pattern)}")
    made, asked = compile(_code(rewrite), rewrite, "eval"), compile(when, when, "eval")

    def build(self: Any, op: Any, **values: Any) -> Any:
        return eval(made, {**ENV, "k": partial(constant, op), **values, "op": op})

    def check(self: Any, context: Any, **values: Any) -> bool:
        return bool(eval(asked, {**ENV, **values}))

    body = {"pattern": match, "rewrite": build, "check": check}
    return (Transformation, RewriteRulePass), body, promise


eq = partial(rule, passes.verify.equality)
tol = partial(rule, passes.verify.tolerance)


def edit(change: Callable[[ir.Model], Any], promise: Any = passes.verify.equality) -> Spec:
    """Make a pass from a function that changes a model in place."""

    def call(self: Any, model: ir.Model) -> ir.passes.PassResult:
        change(model)
        return ir.passes.PassResult(model, modified=True)

    return (Transformation,), {"call": call}, promise


def swap(text: str, *pairs: tuple[str, str], opset: int = 21) -> tuple[str, Spec]:
    """Make a model, and a pass that replaces pieces of it."""
    new = text
    for old, made in pairs:
        assert old in new, old
        new = new.replace(old, made)

    def change(model: ir.Model) -> None:
        result = ir.from_proto(m(new, opset))
        model.graph = result.graph
        model.functions.clear()
        model.functions.update(result.functions)

    return text, edit(change)


def scaled(factor: float, *names: str) -> Callable[[ir.Model], None]:
    """Return a function that multiplies weights."""

    def change(model: ir.Model) -> None:
        for name in names:
            value = model.graph.initializers[name]
            assert value.const_value is not None
            array = value.const_value.numpy()
            value.const_value = ir.tensor((array * np.float64(factor)).astype(array.dtype))

    return change


Entry: TypeAlias = tuple[str, Build, Spec, dict[str, Array] | None]


def case(name: str, model: str | Build, spec: Spec, **feed: Array) -> Entry:
    """Describe a case; a model is text, or what builds it."""
    build = partial(m, model) if isinstance(model, str) else model
    return name, build, spec, {k: np.asarray(v) for k, v in feed.items()} or None


def kind(name: str, wrong: bool, *entries: Entry) -> list[Case]:
    """Make the cases of a kind; which half one is in was drawn from its place alone."""
    places, cases = range(len(entries)), []
    seen = set(random.Random(f"halves of {name}").sample(places, (len(entries) + 1) // 2))
    for i, (title, build, (bases, body, promise), feed) in enumerate(entries):
        words = "".join(word.capitalize() for word in title.split("-"))
        made = type(words, bases, {**body, "__doc__": inspect.cleandoc(title), "name": title})
        cls = promise(passes.register()(made))
        half = "seen" if i in seen else "held-back"
        cases.append(Case(name, title, half, build, cls, wrong, feed))
    return cases
