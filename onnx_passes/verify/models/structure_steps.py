"""Steps that make structure: branches, loops, and what optimisers look for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto

from onnx_passes.verify.models.body_steps import compute_like, make_body, make_graph
from onnx_passes.verify.models.choosing import static
from onnx_passes.verify.models.function_steps import call, call_of_steps, uncalled
from onnx_passes.verify.models.inferring import IR_VERSION, UnfitError
from onnx_passes.verify.models.known_values import ALL, BOOL, FLOATS, KnownValue, random_array
from onnx_passes.verify.models.scope import GraphScope

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
        axes = {} if not scope.has_attribute("ReduceMax", "axes") else {"keepdims": 0}
        (most,) = scope.emit("ReduceMax", [number], **(axes or {"keepdims": 0}))
        (condition,) = scope.emit("Cast", [most], to=BOOL)
        if value.shape is None or flag.static is None or 0 in flag.static:
            raise UnfitError
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
    names = [scope.name() for _ in range(1 + unread)]
    node = onnx.helper.make_node(
        "If",
        [condition.name],
        names,
        f"n{names[0]}",
        then_branch=branches[0],
        else_branch=branches[1],
    )
    scope.add(node, [KnownValue(names[0], value.dtype, value.shape)])


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
        raise UnfitError
    body = make_body(scope, "body")
    state = KnownValue(body.name(), value.dtype, sizes[1:])
    item = KnownValue(body.name(), value.dtype, sizes[1:])
    body.values += [state, item]
    (new,) = body.emit(str(rng.choice(["Add", "Mul", "Max"])), [state, item])
    (seen,) = body.emit("Identity", [new])
    graph = make_graph(body, "body", [state, item], [new, seen])
    start = scope.fresh(rng, [value.dtype], sizes[1:])
    names = [scope.name(), scope.name()]
    node = onnx.helper.make_node(
        "Scan", [start.name, value.name], names, f"n{names[0]}", body=graph, num_scan_inputs=1
    )
    scope.add(
        node,
        [
            KnownValue(names[0], value.dtype, sizes[1:]),
            KnownValue(names[1], value.dtype, sizes),
        ],
    )


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
        raise UnfitError
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
            raise UnfitError
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
            raise UnfitError
        neutral = random_array(rng, value.dtype, ()) * 0 + (number in ("Mul", "Div"))
        scope.emit(number, [value, scope.constant(np.asarray(neutral), rng)])


def litter(scope: GraphScope, rng: np.random.Generator) -> None:
    """What exporters leave behind: unread or repeated initializers, nodes without a name."""
    style = int(rng.integers(3))
    if style == 0:
        array = random_array(rng, TensorProto.FLOAT, (2,))
        scope.initializers.append(onnx.numpy_helper.from_array(array, scope.name()))
    elif style == 1:
        value = scope.pick(lambda v: v.data is not None and v.name in _initial(scope))
        assert value.data is not None
        tensor = scope.tensor(value.data, scope.name())
        scope.initializers.append(tensor)
        copy = KnownValue(tensor.name, value.dtype, value.shape, value.data)
        scope.values.append(copy)
        scope.emit("Identity", [copy])
    else:
        scope.emit("Identity", [scope.pick_type(*ALL)])
        scope.nodes[-1].name = ""


def _initial(scope: GraphScope) -> set[str]:
    return {tensor.name for tensor in scope.initializers}


STEPS: tuple[Step, ...] = (
    if_,
    if_,
    loop,
    scan,
    call,
    call_of_steps,
    uncalled,
    unread_result,
    unread_result,
    equal_branches,
    duplicate,
    duplicate,
    nothing,
    nothing,
    litter,
)
"""Steps of this file, the common ones more than once."""

__all__ = ["IR_VERSION", "STEPS", "Step"]
