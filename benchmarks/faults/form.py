"""The text form of planted faults: a line a field, an empty line between entries.

    bias-scaled ~ A bias times 1.01, deep in the network.
    on transformer at 0.9
    match Add(bias, x)
    when fixed(bias)
    right Add(x, bias)
    wrong Add(x, const(num(bias) * f4(1.01)))

The first line has a name, what is promised, and what is wrong. The promise is ``=`` equality,
``~`` tolerance, ``~metric()`` or ``~(rtol=1e-5)``. A right pass begins with ``+``, and ``==``
begins a family. Indented lines continue a field.

- ``text NAME TEXT``, of a family: what ``$NAME`` is in models that follow.
- ``model NAME: TEXT; opset ...; weights ...``: the model as ONNX text; ``$[...]$`` is Python
  that makes text. The name may be left out, which is then that of the entry.
- ``net FILE; change ...``: a network of the folder ``out/networks``, or a light model of onnx.
- ``blocks NAME: BODY; x ...; y ...; constants ...; odd OLD -> NEW``: equal blocks beside each
  other; ``chain``: layers, ``knobs``: blocks with inputs that have defaults.
- ``on NAME``: a model of another entry, or a network.
- ``at PLACE``, ``needs SETTING``, ``feed x=...``: as attributes of a fault.
- ``match``, ``when``: the pattern and its condition; what it replaces is called ``out``; in a
  line ``match PATTERN when CONDITION => MAKE``.
- ``right``, ``wrong``: what it becomes.
- ``applies``, ``sound``, ``make``: the same; where it is wrong, ``sound`` is not asked.
- ``lose OPERATOR LOST EXPLICIT=DEFAULT``: writes out one attribute, and loses another.
- ``edit``: changes ``model`` in place; ``at`` and ``guilty(value)`` say where to be wrong.
- ``changes``, ``map``: what may change of the interface, and the three functions of its map.
- ``swap OLD -> NEW``: the pass replaces pieces of the text of the model.
- ``plant MODULE NAME``, ``be``: a function or method of the library, and the wrong one.
- ``let``: definitions for the others; ``like NAME`` takes these fields from another entry.

Code is Python, whose last expression is the result; ``Add(...)`` makes a node.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from types import CodeType
from typing import Any, ClassVar, NamedTuple, TypeAlias

import ml_dtypes
import numpy as np
import onnx_ir as ir

from benchmarks.faults import models
from benchmarks.faults.case import Fault, Plant, Setting, Source
from benchmarks.faults.plant import plant
from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.model.copy import copy_nodes
from onnx_passes.passes import registry
from onnx_passes.passes.base import Pass, RewriteRulePass, RewriteRuleSetPass, Transformation
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.context import InterfaceMap

Row: TypeAlias = dict[str, list[str]]

SOURCES = {source.name: source for source in models.NETWORKS}
MODELS: dict[str, Callable[..., Source]] = {
    "model": models.source,
    "net": models.network,
    "blocks": models.blocks,
    "chain": models.chain,
    "knobs": models.overridable,
}
HEAD = ("", *MODELS, "on", "at", "needs", "feed", "like", "swap")
"""Fields that are not of the pass."""
ENTRIES: dict[str, Row] = {}


def guilty(at: str, out: ir.Value) -> bool:
    """Whether the rewrite that computes a value is to be wrong."""
    return at == "*" or out.name in at.split(",")


def substitute(old: ir.Value, node: ir.Node) -> None:
    """Let a new node compute a value, under the name that it had.

    Args:
        old: The output of a node that has no other, which is removed.
        node: The new node, in no graph yet.
    """
    producer, new = old.producer(), node.outputs[0]
    assert producer is not None
    assert producer.graph is not None
    producer.graph.insert_before(producer, node)
    name, old.name = old.name, None
    new.name, new.type, new.shape = name, old.type, old.shape
    old.replace_all_uses_with(new, replace_graph_outputs=True)
    producer.graph.remove(producer, safe=True)


def initializer(graph: ir.Graph, name: str, data: Any, dtype: Any = None) -> ir.Value:
    """Add an initializer to a graph."""
    tensor = ir.tensor(np.asarray(data, dtype))
    value = ir.Value(
        name=name,
        type=ir.TensorType(tensor.dtype),
        shape=ir.Shape(tensor.shape),
        const_value=tensor,
    )
    graph.register_initializer(value)
    return value


def scale(graph: ir.Graph, factor: float, name: str) -> None:
    """Multiply a weight."""
    value = graph.initializers[name]
    old = num(value)
    value.const_value = ir.tensor((old * np.float64(factor)).astype(old.dtype))


def merge(first: ir.Node, second: ir.Node) -> None:
    """Let a node compute what an equal one does."""
    second.outputs[0].replace_all_uses_with(first.outputs[0])
    assert second.graph is not None
    second.graph.remove(second, safe=True)


def attrs(value: ir.Value, *without: str) -> dict[str, Any]:
    """Return the attributes of the node that computes a value."""
    producer = value.producer()
    found = {} if producer is None else producer.attributes
    return {key: each.value for key, each in found.items() if key not in without}


def array(value: ir.Value | None) -> Array | None:
    """Return the constant that a value is, None if it is not a constant."""
    tensor = constant_of(value)
    return None if tensor is None else tensor.numpy()


def num(value: ir.Value | None) -> Array:
    """Return the constant that a value is, NaN if it is not a constant."""
    found = array(value)
    return np.asarray(np.nan) if found is None else found


def constant(op: Any, data: Any, dtype: Any = None) -> Any:
    """Make a Constant node."""
    return op.Constant(value=ir.tensor(np.asarray(data, dtype)))


def line(*shape: int, low: float = -2, high: float = 2, dtype: Any = None) -> Any:
    """Return equally spaced numbers."""
    return np.linspace(low, high, math.prod(shape), dtype=dtype).reshape(shape)


def spike(*shape: int, value: float = 1e6) -> Array:
    """Return ordinary numbers, the first one far away."""
    numbers = models.rnd(*shape)
    numbers.flat[0] = value
    return numbers


def ids(*shape: int, high: int = 50) -> Array:
    """Return integers from 1 to ``high - 1``, in an order that repeats."""
    return np.asarray(np.arange(np.prod(shape)) * 7 % (high - 1) + 1, np.int64).reshape(shape)


ENV: dict[str, Any] = {
    **{module.__name__: module for module in (ir, math, ml_dtypes)},
    **{each.__name__: each for each in (array, attrs, copy_nodes, line, merge, num, product)},
    **{each.__name__: each for each in (models.bits, models.weights, models.feed, substitute)},
    **{each.__name__: each for each in (spike, ids, models.rnd)},
    **{f"f{n}": getattr(np, f"float{8 * n}") for n in (2, 4, 8)},
    **{f"i{n}": getattr(np, f"int{8 * n}") for n in (1, 4, 8)},
    "ir": ir,
    "np": np,
    "u1": np.uint8,
    "SPECIAL": np.float32([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -2.5, 3e38]),
    "PADDED": np.array([[1, 1, 1, 0, 0], [0, 0, 0, 0, 0]], np.int64),
    "attr": lambda value, name, default=None: attrs(value).get(name, default),
    "fixed": lambda value: array(value) is not None,
    "given": lambda value, name: name in attrs(value),
    "src": lambda value, place: value.producer().inputs[place],
    "rows": lambda count: line(count, 4, low=-1, dtype=np.float32),
    "unsigned": lambda value: value.dtype.is_integer() and not value.dtype.is_signed(),
    "HALF": ir.DataType.FLOAT16,
    "BFLOAT": ir.DataType.BFLOAT16,
    "FLOAT": ir.DataType.FLOAT,
}
"""What code may use besides the values of its pattern."""


class _Operators(ast.NodeTransformer):
    """Make ``Add(x, y)`` a call of ``op``."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id[0].isupper():
            node.func = ast.Attribute(ast.Name("op", ast.Load()), node.func.id, ast.Load())
        return node


@cache
def _compiled(text: str) -> CodeType:
    tree = _Operators().visit(ast.parse(text))
    last = tree.body[-1]
    if isinstance(last, ast.Expr):
        tree.body[-1] = ast.Assign([ast.Name("result", ast.Store())], last.value)
    return compile(ast.fix_missing_locations(tree), text, "exec")


def evaluate(row: Row, field: str, **names: Any) -> Any:
    """Run the code of a field, behind the definitions of the entry."""
    scope = {**ENV, **names}
    for text in (*row.get("let", ()), *row[field]):
        exec(_compiled(text), scope)
    return scope.get("result")


def pattern(text: str) -> Callable[..., Any]:
    """Return a pattern; ``(name := Add(x, y))`` names what a node computes."""
    tree = ast.parse(text, mode="eval")
    inner = [node for node in ast.walk(tree) if isinstance(node, ast.NamedExpr)]
    named = {node.target.id for node in inner}
    calls = [(node.value, node.target.id) for node in inner]
    if not isinstance(tree.body, ast.NamedExpr):
        calls.append((tree.body, "out"))
    for value, name in calls:
        assert isinstance(value, ast.Call), text
        if all(keyword.arg != "_outputs" for keyword in value.keywords):
            value.keywords.append(ast.keyword("_outputs", ast.List([ast.Constant(name)])))
    found = sorted(
        (node.col_offset, node.id) for node in ast.walk(tree) if isinstance(node, ast.Name)
    )
    variables = dict.fromkeys(
        name for _, name in found if name[0].islower() and name not in {*ENV, *named}
    )
    body = ast.unparse(ast.fix_missing_locations(_Operators().visit(tree)))
    made: Callable[..., Any] = eval(f"lambda self, op, {', '.join(variables)}: {body}", ENV)
    return made


class Entry(Transformation):
    """A pass of an entry.

    Attributes:
        at: Name of the value to compute wrongly, or names with commas between them; "*" for
            all, "" for none.
    """

    row: ClassVar[Row]

    at: str = ""

    def made(self, field: str, text: str, op: Any, **values: Any) -> Any:
        """Compute what a match becomes."""
        names = {**values, "op": op, "self": self, "const": partial(constant, op)}
        names["ints"] = lambda *numbers: constant(op, numbers, np.int64)
        return evaluate({**self.row, field: [text]}, field, **names)

    def is_wrong(self, values: dict[str, Any]) -> bool:
        """Whether a match is to become something wrong."""
        return "wrong" in self.row and guilty(self.at, values["out"])


class Rule(Entry, RewriteRulePass):
    """A rewrite."""

    def check(self, context: Any, **values: Any) -> bool:
        asked = [field for field in ("when", "applies", "sound") if field in self.row]
        if self.at and "sound" in asked:
            asked.remove("sound")
        return all(evaluate(self.row, field, **values) for field in asked)

    def rewrite(self, op: Any, **values: Any) -> Any:
        field = "make" if "make" in self.row else "right"
        if self.is_wrong(values):
            field = "wrong"
        return self.made(field, self.row[field][0], op, **values)


class Rules(Entry, RewriteRuleSetPass):
    """Several rewrites; the first of them is wrong in places."""

    def pattern(self) -> list[Callable[..., Any]]:
        return [partial(pattern(text), self) for text in self.row["match"]]

    def rewrite(self) -> list[Callable[..., Any]]:
        return [partial(self.either, text) for text in self.row["right"]]

    def either(self, text: str, op: Any, **values: Any) -> Any:
        """Compute what a match becomes."""
        if self.is_wrong(values):
            (text,) = self.row["wrong"]
        return self.made("right", text, op, **values)


class Edit(Entry):
    """A pass without rules."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        self.edit(self.at, model)
        return ir.passes.PassResult(model, modified=True)

    def edit(self, at: str, model: ir.Model) -> None:
        """Change a model in place."""
        names = {
            "model": model,
            "graph": model.graph,
            "at": at,
            "guilty": partial(guilty, at),
            "run": lambda *names: [cls().call(model) for cls in registry.collect(names)],
            "nodes": lambda operator: [n for n in model.graph if n.op_type == operator],
            "initializer": partial(initializer, model.graph),
            "scale": partial(scale, model.graph),
            "swap": partial(swap, model=model),
        }
        evaluate(self.row, "edit", **names)

    def interface_map(self, before: ir.Model) -> InterfaceMap | None:
        if "map" not in self.row:
            return super().interface_map(before)
        ports = evaluate(self.row, "map", at=self.at, same=lambda name, value: (name, value))
        return InterfaceMap(*ports, partial(self.edit, ""))


def entries(table: str) -> Iterator[Row]:
    """Yield the fields of each entry; an empty one holds its first line."""
    for block in re.split(r"\n\s*\n", table.strip("\n")):
        first, *fields = re.split(r"\n(?! )", block)
        row = {"": [" ".join(first.split())]}
        for field in fields:
            word, rest = re.split(r"\s", field, maxsplit=1)
            if field.startswith(f"{word}\n"):
                rest = "\n".join(code[2:] for code in rest.split("\n"))
            else:
                rest = " ".join(rest.split())
            if word == "match":
                for sign, other in ((" => ", "make"), (" when ", "when")):
                    rest, found, text = rest.partition(sign)
                    row |= {other: [text]} if found else {}
            row.setdefault(word, []).append(rest)
        yield row


def template(text: str) -> str:
    """Replace what stands between ``$[`` and ``]$`` by what it is, and ``$NAME``."""
    return re.sub(
        r"\$\[(.*?)\]\$|\$(\w+)", lambda found: str(eval(found[1] or found[2], ENV)), text
    )


def source(kind: str, text: str, entry: str, opset: str) -> Source:
    """Make a model from its field, and remember it by its name."""
    named = re.match(r"([^(<$]*): ", text)
    name = named[1] if named else entry
    body, *parts = map(template, text[named.end() if named else 0 :].split("; "))
    options = {"opset": opset} if kind == "model" else {}
    SOURCES[name] = MODELS[kind](
        name, body, **options | dict(part.split(" ", 1) for part in parts)
    )
    return SOURCES[name]


def swap(pieces: list[str], text: str, opset: str, model: ir.Model) -> None:
    """Make a model the one of a text in which pieces are replaced."""
    for old, new in (piece.split(" -> ") for piece in pieces):
        assert old in text, old
        text = text.replace(old, new)
    other = source("model", text, "", opset).model(full=False)
    model.graph = other.graph
    model.functions.clear()
    model.functions.update(other.functions)


class Texts(NamedTuple):
    """What texts hold: faults, and right passes with their models."""

    faults: list[Fault]
    innocents: list[tuple[type[Pass], Source]]


def read(*texts: str, at: str = "0.7", needs: Setting = "default", opset: str = "20") -> Texts:
    """Read the faults, and right passes, of texts.

    Args:
        texts: The texts.
        at: Where a fault is, if it does not say that.
        needs: The setting under which it shows, likewise.
        opset: Of a model, likewise.
    """
    found = Texts([], [])
    family = ""
    # Where a fault is, and what shows it, may stand in one line.
    text = re.sub(
        r"(?m)^(?:on|at) .*$",
        lambda m: re.sub(r" (at|needs) ", r"\n\1 ", m[0]),
        "\n\n".join(texts),
    )
    for row in entries(text):
        first = row[""][0].removeprefix("+ ")
        if first.startswith("== "):
            family = first.removeprefix("== ")
            for field in row.get("text", ()):
                name, value = field.split(" ", 1)
                ENV[name] = template(value)
            continue
        name, sign, *description = first.split(" ", 2)
        ENTRIES[name] = {
            **(ENTRIES[row["like"][0]] if "like" in row else {}),
            **{field: texts for field, texts in row.items() if field not in HEAD},
        }
        if "swap" in row:
            ENTRIES[name] |= {"edit": [f"swap({row['swap']}, {row['model'][0]!r}, {opset!r})"]}
        sources = [
            source(kind, given, name, opset) for kind in MODELS for given in row.get(kind, ())
        ]
        sources += [SOURCES[given] for given in row.get("on", ())]
        cls = made(family, name, sign, " ".join(description), ENTRIES[name])
        if row[""][0].startswith("+ "):
            found.innocents.extend((cls, each) for each in sources)
            continue
        place = row.get("at", [at])[0]
        fault = Fault(
            cls,
            *sources,
            float(place) if place[0].isdigit() else place,
            row.get("needs", [needs])[0],  # type: ignore[arg-type]
            tuple(eval(f"feed({given})", ENV) for given in row.get("feed", ())),
            planted(ENTRIES[name]),
        )
        found.faults.append(fault)
    return found


def planted(row: Row) -> Plant | None:
    """Return what makes a function or a method of the library wrong, if a pass asks for it."""
    if "plant" not in row:
        return None
    module, name = row["plant"][0].split()
    return plant(f"onnx_passes.{module}", name, lambda right: evaluate(row, "be", right=right))


def lose(text: str) -> Row:
    """Return the fields of a pass that writes out a default, and loses another attribute."""
    operator, lost, explicit, *more = text.split()
    known = explicit.partition("=")[0]
    node = f"{operator}(*out.producer().inputs, **attrs(out{{}}), {explicit}, _outputs={{}})"
    return {
        "match": [f"{operator}(_allow_other_inputs=True, _outputs={['out', *more]})"],
        "when": [f"{lost!r} in attrs(out) and {known!r} not in attrs(out)"],
        "right": [node.format("", 1 + len(more))],
        "wrong": [node.format(f", {lost!r}", 1 + len(more))],
    }


def made(family: str, name: str, sign: str, description: str, row: Row) -> type[Pass]:
    """Make the pass of an entry."""
    if "lose" in row:
        row |= lose(row["lose"][0])
    body: dict[str, Any] = {"__doc__": description, "__module__": family, "name": name}
    body["row"] = row
    if "changes" in row:
        body["interface_changes"] = frozenset(row["changes"][0].split())
    base: type[Pass] = Edit if "edit" in row else Rules
    if len(row.get("match", ())) == 1:
        base, body["pattern"] = Rule, pattern(row["match"][0])
    words = "".join(word.capitalize() for word in name.split("-"))
    promise = {"=": "equality", "~": "tolerance"}.get(sign, sign[1:])
    promise = f"tolerance{promise}" if promise.startswith("(") else promise
    verify = {"verify": passes.verify}
    decorated: type[Pass] = eval(f"verify.{promise}", verify)(type(words, (base,), body))
    return decorated
