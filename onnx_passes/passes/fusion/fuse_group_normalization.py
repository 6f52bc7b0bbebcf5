"""Replace what exporters write for GroupNormalization by the operator."""

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.passes.base import MatchContext, Op, Rule, Value, Var
from onnx_passes.passes.common.matches import has_opset, node_of
from onnx_passes.passes.common.normalization_matching import holds
from onnx_passes.passes.common.shapes import dims_of
from onnx_passes.passes.constants import constant_of
from onnx_passes.passes.hints import Hint, Hints, Spec, data, filled, ints


@passes.verify.tolerance(rtol=1e-2)
@passes.register()
class FuseGroupNormalization(passes.Transformation, passes.RewriteRuleSetPass):
    """Replace what exporters write for GroupNormalization by the operator.

    Before: ``Reshape(InstanceNormalization(Reshape(x, [0, groups, -1]), 1, 0), Shape(x))``,
            times a scale, plus a bias
    After:  ``GroupNormalization<num_groups = groups>(x, scale, bias)``

    Found without scale or bias too. A scale or bias behind a GroupNormalization that has none
    is taken over. Not in the group ``fuse``: for engines with a kernel of their own; ONNX
    Runtime 1.31 has none on the CPU, computes the formula, and is slower than before.

    Sound because an instance of a group's channels, laid end to end, is the group. The
    contract is a wide tolerance: ONNX defines the operator by the mean of squares less the
    square of the mean. If a group's numbers are nearly equal, an engine that follows loses
    digits that InstanceNormalization keeps.

    Leaves alone: models before opset 21 (the operator of opset 18 was withdrawn); groups that
    are not known to be whole channels of one sample; shapes that are not known to be restored;
    a scale or bias that is not constant or not by channel; other types than float; inner
    values that are read elsewhere. Functions, where shapes are unknown.
    """

    needs = ("shape-inference",)
    exclusive = True
    hints: ClassVar[Hints] = {
        "formula": Hint(
            {
                "x": data("n g*p h w", "n g*p h"),
                "groups.1": ints("0 g -1", "n g -1"),
                "s": filled("g", 1.0),
                "b": filled("g", 0.0),
                "y.1": (Spec(node="Shape", of=("x",)),),
            },
            {"Reshape.allowzero": (None,)},
            (ir.DataType.FLOAT,),
            21,
        ),
        "*": Hint(
            {
                "x": data("n 2*p h w", "n 2*p h"),
                "s": filled("2*p", 1.0),
                "b": filled("2*p", 0.0),
                "w": data("2*p 1 1", "2*p 1", "1 2*p 1 1", ""),
            },
            {"GroupNormalization.num_groups": (1, 2)},
            (ir.DataType.FLOAT,),
        ),
    }

    def rules(self) -> Iterator[Rule]:
        yield Rule(_formula, _by_group, _is_by_group, "formula")
        for name in ("Mul", "Add"):
            for place in (0, 1):
                yield Rule(partial(_followed, name, place), _with_parameter, _may_follow)


def _formula(op: Op, x: Var, s: Var, b: Var) -> Var:
    groups = op.Reshape(x, _allow_other_inputs=True, _outputs=["groups"])
    normal = op.InstanceNormalization(groups, s, b, _outputs=["n"])
    return op.Reshape(normal, _allow_other_inputs=True, _outputs=["y"])


def _is_by_group(
    context: MatchContext, x: Value, s: Value, b: Value, groups: Value, y: Value, **_: object
) -> bool:
    dims, parts, channels = dims_of(x), dims_of(groups), _channels(x)
    if not has_opset(context, 21) or x.dtype is not ir.DataType.FLOAT or channels is None:
        return False
    if dims is None or None in dims or parts is None or parts[0] != dims[0] or 0 in dims:
        return False
    grouped = isinstance(parts[1], int) and channels % parts[1] == 0
    return grouped and dims_of(y) == dims and holds(s, 1.0) and holds(b, 0.0)


def _by_group(op: Op, x: Value, groups: Value, n: Value, **_: object) -> Value:
    channels, parts = _channels(x), dims_of(groups)
    assert channels is not None, "check has seen to it"
    assert parts is not None, "check has seen to it"
    row = np.ones(channels, np.float32)
    scale, bias = (op.Constant(value=ir.tensor(array)) for array in (row, 0 * row))
    epsilon = node_of(n).attributes.get_float("epsilon", 1e-5)
    return _call(op, x, scale, bias, epsilon=epsilon, num_groups=parts[1])


def _followed(follower: str, place: int, op: Op, x: Var, s: Var, b: Var, w: Var) -> Var:
    """The pattern of a GroupNormalization that a parameter follows."""
    operands = [op.GroupNormalization(x, s, b, _outputs=["n"])]
    operands.insert(place, w)
    return getattr(op, follower)(*operands)


def _may_follow(
    context: MatchContext, x: Value, s: Value, b: Value, w: Value, **_: object
) -> bool:
    if not has_opset(context, 21) or _by_channel(w, x) is None or not holds(b, 0.0):
        return False
    return context.root.op_type == "Add" or holds(s, 1.0)


def _with_parameter(
    op: Op, x: Value, s: Value, b: Value, w: Value, n: Value, **_: object
) -> Value:
    array = _by_channel(w, x)
    assert array is not None, "check has seen to it"
    row = op.Constant(value=ir.tensor(array))
    (user,) = n.consumers()
    parameters = (row, b) if user.op_type == "Mul" else (s, row)
    return _call(op, x, *parameters, **node_of(n).attributes)


def _by_channel(w: Value, x: Value) -> Array | None:
    """Return the numbers of a constant that broadcasts by channel, one for each."""
    tensor, dims, channels = constant_of(w), dims_of(x), _channels(x)
    if tensor is None or dims is None or channels is None or len(tensor.shape) > len(dims):
        return None
    array = tensor.numpy()
    array = array.reshape([1] * (len(dims) - array.ndim) + list(array.shape))
    if array.size not in (1, channels) or array.shape[1] != array.size:
        return None
    return np.array(np.broadcast_to(array.reshape(-1), channels))


def _channels(x: Value) -> int | None:
    dims = dims_of(x)
    channels = dims[1] if dims is not None and len(dims) > 1 else None
    return channels if isinstance(channels, int) and channels else None


def _call(op: Op, *inputs: Value, **attributes: object) -> Value:
    return op.GroupNormalization(*inputs, **attributes)
