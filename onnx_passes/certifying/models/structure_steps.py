"""Steps that add structure: branches, loops, local functions, and their bodies.

Some steps add what optimizers look for, for example duplicates and unused nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto

from onnx_passes.certifying.models import operator_steps, planted
from onnx_passes.certifying.models.scope import (
    ALL,
    BOOL,
    FLOATS,
    CannotAddNodeError,
    GraphScope,
    KnownValue,
    random_array,
    static,
)

_BODY = (
    *operator_steps.ELEMENTWISE_STEPS,
    *operator_steps.SHAPE_STEPS,
    *operator_steps.REDUCING_STEPS,
    *planted.STEPS,
)


def make_body(scope: GraphScope, word: str) -> GraphScope:
    """Return the scope of a body, which sees the values around it."""
    prefix = f"{scope.prefix}{word[0]}{scope.step}_"
    seed = scope.seed + len(prefix) * 7919 + ord(word[0])
    return scope.inner(seed, prefix, scope)


def compute_like(body: GraphScope, rng: np.random.Generator, value: KnownValue) -> KnownValue:
    """Compute something of the type of a value, by a few steps inside a body."""
    first = 1000 * (body.step + 1)
    for turn in range(int(rng.integers(1, 4))):
        inner = body.begin(first + turn)
        among = (*_BODY, *body.further * 8)
        step = among[int(inner.integers(len(among)))]
        body.takes(step, inner)
    body.begin(first + 999)
    local = {v.name for v in (*body.values, *body.sealed)}
    body.values += body.sealed
    try:
        found = body.pick(
            lambda v: v.name in local and v.dtype == value.dtype and v.shape == value.shape
        )
    except CannotAddNodeError:
        found = value
    (result,) = body.emit("Identity", [found])
    return result


def make_graph(
    body: GraphScope, name: str, inputs: Sequence[KnownValue], outputs: Sequence[KnownValue]
) -> onnx.GraphProto:
    """Return a body as a graph."""

    def infos(values: Sequence[KnownValue]) -> list[onnx.ValueInfoProto]:
        return [onnx.helper.make_value_info(v.name, body.type_of(v)) for v in values]

    return onnx.helper.make_graph(
        body.nodes, name, infos(inputs), infos(outputs), initializer=body.initializers
    )


def call(scope: GraphScope, rng: np.random.Generator) -> None:
    """A call of a local function with an attribute."""
    value = scope.pick(lambda v: v.dtype == scope.native and v.shape is not None)
    name = f"{scope.prefix}F{scope.step}"
    alpha = onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT)
    alpha.ref_attr_name = "slope"
    first = onnx.helper.make_node("LeakyRelu", ["X"], ["A"])
    first.attribute.append(alpha)
    second = onnx.helper.make_node(str(rng.choice(["Add", "Mul", "Sub"])), ["A", "X"], ["Y"])
    _define(scope, name, "X", "Y", [first, second], ["slope"])
    slope = float(rng.choice([0.0, 0.5, 1.0]))
    scope.call(name, [value], [(value.dtype, value.shape)], "local", slope=slope)


def _define(
    scope: GraphScope,
    name: str,
    argument: str,
    result: str,
    nodes: Sequence[onnx.NodeProto],
    attributes: Sequence[str] = (),
) -> None:
    """Add a local function."""
    imports = [onnx.helper.make_opsetid("", scope.opset)]
    function = onnx.helper.make_function(
        "local", name, [argument], [result], nodes, imports, attributes
    )
    scope.main.functions.append(function)


def call_of_steps(scope: GraphScope, rng: np.random.Generator) -> None:
    """A call of a local function of any steps, its constants as nodes."""
    value = scope.pick(lambda v: v.shape is not None and v.data is None)
    name = f"{scope.prefix}G{scope.step}"
    seed = scope.seed + 104729
    body = scope.inner(seed, f"{name}_", None)
    argument = KnownValue(body.name(), value.dtype, value.shape)
    body.values.append(argument)
    result = compute_like(body, rng, argument)
    if body.inputs:
        raise CannotAddNodeError  # a function has no inputs but its own
    constants = [
        onnx.helper.make_node("Constant", [], [tensor.name], value=tensor)
        for tensor in body.initializers
    ]
    _define(scope, name, argument.name, result.name, [*constants, *body.nodes])
    scope.call(name, [value], [(result.dtype, result.shape)], "local")


def uncalled(scope: GraphScope, rng: np.random.Generator) -> None:
    """A function that nobody calls."""
    name = f"{scope.prefix}U{scope.step}"
    node = onnx.helper.make_node(str(rng.choice(["Abs", "Neg", "Exp"])), ["X"], ["Y"])
    _define(scope, name, "X", "Y", [node])


Step = Callable[[GraphScope, np.random.Generator], None]


def if_(scope: GraphScope, rng: np.random.Generator) -> None:
    """An If whose branches read values from outside; the condition may be constant."""
    value = scope.pick_type(*ALL)
    style = rng.random()
    if style < 0.3:
        condition = scope.constant(np.asarray(bool(rng.integers(2))), rng)
    elif style < 0.6:
        condition = scope.fresh(rng, [BOOL], ())
    else:
        flag = scope.pick_type(BOOL)
        (whole,) = scope.emit("Reshape", [flag, scope.ints([-1], rng)])
        (number,) = scope.emit("Cast", [whole], to=TensorProto.INT32)
        (most,) = scope.emit("ReduceMax", [number], keepdims=0)
        (condition,) = scope.emit("Cast", [most], to=BOOL)
        if value.shape is None or flag.static is None or 0 in flag.static:
            raise CannotAddNodeError
    branches = []
    for word in ("then", "else"):
        body = make_body(scope, word)
        result = compute_like(body, rng, value)
        branches.append(make_graph(body, word, [], [result]))
    _add_if(scope, condition, branches, value)


def unread_result(scope: GraphScope, rng: np.random.Generator) -> None:
    """An If or a Loop with one result that is read, and one that is not."""
    if rng.random() < 0.4:
        loop(scope, rng)
        scope.values.pop(-1 if rng.random() < 0.7 else -2)
        return
    value = scope.pick_type(*ALL)
    condition = scope.input(BOOL, ())
    branches = []
    for word in ("then", "else"):
        body = make_body(scope, word)
        results = [compute_like(body, rng, value)]
        results += body.emit("Identity", [value])
        branches.append(make_graph(body, word, [], results))
    _add_if(scope, condition, branches, value, unread=1)


def _add_if(
    scope: GraphScope,
    condition: KnownValue,
    branches: list[onnx.GraphProto],
    value: KnownValue,
    unread: int = 0,
) -> None:
    """Add an If, whose result has the type and shape of a value; further ones go unread."""
    made = [(value.dtype, value.shape)] * (1 + unread)
    scope.call("If", [condition], made, then_branch=branches[0], else_branch=branches[1])
    del scope.values[len(scope.values) - unread :]


def loop(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Loop of a few rounds that carries a value, and collects another one."""
    value, _ = static(scope, *ALL)
    trips = scope.constant(np.asarray(rng.integers(0, 4), np.int64), rng)
    body = make_body(scope, "body")
    counter = KnownValue(body.name(), TensorProto.INT64, ())
    going = KnownValue(body.name(), BOOL, ())
    carried = KnownValue(body.name(), value.dtype, value.shape)
    body.values += [counter, going, carried]
    result = compute_like(body, rng, carried)
    (still,) = body.emit("Identity", [going])
    (seen,) = body.emit("Identity", [result])
    graph = make_graph(body, "body", [counter, going, carried], [still, result, seen])
    names = [scope.name(), scope.name()]
    keep = scope.constant(np.asarray(True), rng)
    node = onnx.helper.make_node(
        "Loop",
        [trips.name, keep.name if rng.random() < 0.5 else "", value.name],
        names,
        f"n{names[0]}",
        body=graph,
    )
    shape = value.shape
    assert shape is not None
    collected = KnownValue(names[1], value.dtype, (None, *shape))
    scope.add(node, [KnownValue(names[0], value.dtype, shape), collected])


def scan(scope: GraphScope, rng: np.random.Generator) -> None:
    """A Scan over the first dimension of a value."""
    value, sizes = static(scope, TensorProto.FLOAT, TensorProto.INT64, least=1)
    if sizes[0] == 0:
        raise CannotAddNodeError
    body = make_body(scope, "body")
    state = KnownValue(body.name(), value.dtype, sizes[1:])
    item = KnownValue(body.name(), value.dtype, sizes[1:])
    body.values += [state, item]
    (new,) = body.emit(str(rng.choice(["Add", "Mul", "Max"])), [state, item])
    (seen,) = body.emit("Identity", [new])
    graph = make_graph(body, "body", [state, item], [new, seen])
    start = scope.fresh(rng, [value.dtype], sizes[1:])
    made = [(value.dtype, sizes[1:]), (value.dtype, sizes)]
    scope.call("Scan", [start, value], made, body=graph, num_scan_inputs=1)


def equal_branches(scope: GraphScope, rng: np.random.Generator) -> None:
    """An If that makes no difference, or almost none."""
    value = scope.pick(lambda v: v.dtype in FLOATS and v.shape is not None and v.data is None)
    condition = scope.input(BOOL, ())
    slopes = [0.2, 0.2 if rng.random() < 0.7 else 0.3]
    branches = []
    for word, slope in zip(("then", "else"), slopes, strict=True):
        body = make_body(scope, word)
        (made,) = body.emit("LeakyRelu", [value], alpha=slope)
        branches.append(make_graph(body, word, [], body.emit("Abs", [made])))
    _add_if(scope, condition, branches, value)


def duplicate(scope: GraphScope, rng: np.random.Generator) -> None:
    """A node that is there already, for common subexpressions to be found."""
    known = {value.name: value for value in scope.values}
    nodes = [
        node
        for node in scope.nodes
        if node.op_type not in ("If", "Loop", "Scan")
        and all(out in known for out in node.output)
    ]
    if not nodes:
        raise CannotAddNodeError
    copy = onnx.NodeProto()
    copy.CopyFrom(nodes[int(rng.integers(len(nodes)))])
    olds = [known[name] for name in copy.output]
    made = [scope.name() for _ in olds]
    del copy.output[:]
    copy.output.extend(made)
    copy.name = f"n{made[0]}"
    if copy.op_type == "Constant":
        copy.attribute[0].t.name = made[0]
    scope.add(
        copy,
        [
            KnownValue(n, old.dtype, old.shape, old.data)
            for n, old in zip(made, olds, strict=True)
        ],
    )


def nothing(scope: GraphScope, rng: np.random.Generator) -> None:
    """An operator that does nothing, by its constant or attribute: what rules remove."""
    value, sizes = static(scope, *ALL)
    style = int(rng.integers(6))
    if style == 0:
        scope.emit("Identity", [value])
    elif style == 1:
        scope.emit("Cast", [value], to=value.dtype)
    elif style == 2:
        if 0 in sizes and scope.opset < 14:
            raise CannotAddNodeError
        scope.emit(
            "Reshape", [value, scope.ints(sizes, rng)], allowzero=1 if 0 in sizes else None
        )
    elif style == 3:
        scope.emit("Transpose", [value], perm=list(range(len(sizes))))
    elif style == 4:
        scope.emit("Concat", [value], axis=0)
    else:
        number = str(rng.choice(["Add", "Sub", "Mul", "Div"]))
        if value.dtype == BOOL:
            raise CannotAddNodeError
        neutral = random_array(rng, value.dtype, ()) * 0 + (number in ("Mul", "Div"))
        scope.emit(number, [value, scope.constant(np.asarray(neutral), rng)])


def litter(scope: GraphScope, rng: np.random.Generator) -> None:
    """What exporters leave behind: unread or repeated initializers, nodes without a name."""
    style = int(rng.integers(3))
    if style == 0:
        array = random_array(rng, TensorProto.FLOAT, (2,))
        scope.initializers.append(onnx.numpy_helper.from_array(array, scope.name()))
    elif style == 1:
        names = {tensor.name for tensor in scope.initializers}
        value = scope.pick(lambda v: v.data is not None and v.name in names)
        assert value.data is not None
        tensor = scope.tensor(value.data, scope.name())
        scope.initializers.append(tensor)
        copy = KnownValue(tensor.name, value.dtype, value.shape, value.data)
        scope.values.append(copy)
        scope.emit("Identity", [copy])
    else:
        scope.emit("Identity", [scope.pick_type(*ALL)])
        scope.nodes[-1].name = ""


STEPS: tuple[Step, ...] = (
    if_, if_, loop, scan, call, call_of_steps, uncalled, unread_result, unread_result,
    equal_branches, duplicate, duplicate, nothing, nothing, litter,
)  # fmt: skip
"""Steps of this file, the common ones more than once."""
