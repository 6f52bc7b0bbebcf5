"""Random models from recipes: a seed and a list of steps; any step may be left out.

One kind of recipe makes quantised networks, as quantisation-aware training exports them to
QONNX. A network is a chain of layers with residual sums, joins and attention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper, numpy_helper

from onnx_passes.arrays import Array
from onnx_passes.certifying.models import operator_steps, planted, structure_steps
from onnx_passes.certifying.models.scope import IR_VERSION, GraphScope, KnownValue
from onnx_passes.ops.bodies.operator_bodies import QONNX
from onnx_passes.plain import Plain, PlainDict

INTEGERS = "integers"
"""Key of the metadata of a network whose sums and joins are all of numbers on one grid."""

Draw = np.random.Generator

NETWORK_IR_VERSION = 8
NETWORK_OPSETS = (11, 13, 14, 16, 18, 20)
MODES = (*["ROUND"] * 12, "HALF_UP", "HALF_DOWN", "FLOOR", "CEIL", "DOWN")
"""Rounding modes, those less often whose steps are at integers, where sums of integers are."""

SHAPES = ((12,), (4, 8), (2, 6, 6), (3, 5, 5))
"""Shapes of an input, without the batch."""

_TO_NEAREST = ("ROUND", "HALF_UP", "HALF_DOWN")


_FLAT_WITHIN = 0.02
"""How near to its greatest number a Tanh or Sigmoid is too flat for a step to be found."""


class Net:
    """A network under construction.

    The next layer reads `value`. Its `shape`, without the batch, is ``[D]``, ``[T, D]`` or
    ``[C, H, W]``. `regular` says that integers suffice between its quantisers: what is
    multiplied was quantised, and what is added or joined has one scale. `flat` names results
    of functions that are flat far from 0.
    """

    def __init__(self, seed: int, shapes: Sequence[tuple[int, ...]] = SHAPES) -> None:
        """Begin with an input of one of some shapes."""
        self.draw = np.random.default_rng([seed, 2**20])
        self.seed, self.opset = seed, int(self.draw.choice(NETWORK_OPSETS))
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.shape: tuple[int, ...] = shapes[int(self.draw.integers(len(shapes)))]
        self.batch: int | str = "N" if self.draw.random() < 0.5 else 2
        self.value, self.regular = "image", True
        self.flat: set[str] = set()
        self.input = helper.make_tensor_value_info(
            "image", TensorProto.FLOAT, [self.batch, *self.shape]
        )
        self._count = 0

    def begin(self, number: int) -> None:
        """Draw from here on what the step of this number draws."""
        self.draw = np.random.default_rng([self.seed, number])

    def chance(self, share: float) -> bool:
        """Say yes in a share of the cases."""
        return bool(self.draw.random() < share)

    def add(self, kind: str, *inputs: str, domain: str = "", **attributes: Plain) -> str:
        """Add a node and return the name of its output."""
        self._count += 1
        name = f"{kind}_{self._count}"
        self.nodes.append(
            helper.make_node(kind, inputs, [name], name=name, domain=domain, **attributes)
        )
        return name

    def __getattr__(self, kind: str) -> Callable[..., str]:
        """Return what adds a node of an operator, as in ``net.Relu(x)``."""
        if not kind[0].isupper():
            raise AttributeError(kind)
        return partial(self.add, kind)

    def constant(self, array: object) -> str:
        """Add an initializer of float32, or of int64 if it holds integers."""
        self._count += 1
        array = np.asarray(array)
        kind = np.int64 if array.dtype.kind == "i" else np.float32
        name = f"constant_{self._count}"
        self.constants.append(numpy_helper.from_array(array.astype(kind), name))
        return name

    def along_channels(self, row: Array) -> Array:
        """Return a number for each channel in the shape that broadcasts along them."""
        return row.reshape(-1, 1, 1) if len(self.shape) == 3 else row

    @property
    def channels(self) -> int:
        """Size of the axis of channels."""
        return self.shape[0] if len(self.shape) == 3 else self.shape[-1]

    def scale(self) -> Array:
        """Draw a scale: any number, or a power of two, with which ties occur."""
        if self.chance(0.2):
            return np.asarray(2.0 ** -int(self.draw.integers(0, 5)), np.float32)
        return np.asarray(self.draw.uniform(0.02, 0.6), np.float32)

    def quantise(self, value: str) -> str:
        """Quantise an activation.

        Kernels of Sigmoid and Tanh waver where the function is flat, next to integers at which
        some rounding modes have steps: thresholds there are not found.
        """
        size = self.scale()
        scale = self.constant(size)
        # Sums of integers are often 0, where its step is, but for a term in front.
        if self.chance(0.3 if value.startswith(("Add", "BatchNorm", "image")) else 0.03):
            return self.BipolarQuant(value, scale, domain=QONNX)
        signed = int(self.chance(0.6))
        bits = float(self.draw.integers(2, 6))
        zero = float(self.draw.integers(0, 4)) if not signed and self.chance(0.2) else 0.0
        narrow = int(self.chance(0.2))
        mode = str(self.draw.choice(MODES))
        if value in self.flat and (mode not in _TO_NEAREST or _reaches_flat(size, bits)):
            self.regular = False
        kind = str(self.draw.choice(["Quant", "Quant", "IntQuant"]))
        operands = (value, scale, self.constant(zero), self.constant(bits))
        return self._quant(*operands, kind=kind, signed=signed, narrow=narrow, mode=mode)

    def _quant(
        self,
        *operands: str,
        kind: str = "Quant",
        signed: int = 1,
        narrow: int = 0,
        mode: str = "ROUND",
    ) -> str:
        given: PlainDict = {"signed": signed, "narrow": narrow, "rounding_mode": mode}
        return self.add(kind, *operands, domain=QONNX, **given)

    def on_one_grid(self, *values: str) -> list[str]:
        """Quantise values alike."""
        parameters = tuple(map(self.constant, (self.scale(), 0.0, 4.0)))
        return [self._quant(v, *parameters) for v in values]

    def weights(self, shape: Sequence[int], axis: int) -> str:
        """Make quantised weights, with one scale or one for each place along `axis`."""
        array = self.constant(self.draw.normal(0, 0.7, shape))
        scale: Array = np.asarray(self.scale())
        if self.chance(0.4):
            size = [1] * len(shape)
            size[axis] = shape[axis]
            scale = self.draw.uniform(0.05, 0.5, size).astype(np.float32)
        if self.chance(0.2):
            return self.BipolarQuant(array, self.constant(scale), domain=QONNX)
        bits = float(self.draw.integers(2, 7))
        parameters = (self.constant(scale), self.constant(0.0), self.constant(bits))
        return self._quant(array, *parameters, narrow=int(self.chance(0.7)))

    def proto(self) -> onnx.ModelProto:
        """Return the model; its output is the value of the last layer."""
        if not self.nodes:
            self.value = self.Relu(self.value)
        output = helper.make_tensor_value_info(
            self.value, TensorProto.FLOAT, [self.batch, *self.shape]
        )
        graph = helper.make_graph(
            self.nodes, f"network_{self.seed}", [self.input], [output], self.constants
        )
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid(QONNX, 1)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=NETWORK_IR_VERSION)
        if self.regular:
            helper.set_model_props(model, {INTEGERS: "between quantisers"})
        return model


def _reaches_flat(scale: Array, bits: float) -> bool:
    """Whether a step of a quantiser is where Tanh and Sigmoid are nearly 1, or -1."""
    steps = (np.arange(2**bits) + 0.5) * scale
    return bool((np.abs(steps - 1) < _FLAT_WITHIN).any())


_RANKS = {"attention": 2}
"""Ranks of inputs without the batch, by form; all others are of images."""

_FLAT = (5, 6)
"""Places of Tanh and Sigmoid among the activations."""

LARGEST = 512
"""Elements of one sample above which a layer makes no more channels."""


def network(seed: int, steps: Sequence[int], form: str | None = None) -> onnx.ModelProto:
    """Build a network; any of its layers may be left out of `steps`."""
    rank = None if form is None else _RANKS.get(form, 3)
    net = Net(seed, [shape for shape in SHAPES if rank in (None, len(shape))])
    if net.chance(0.9):
        net.value = net.quantise(net.value)
    else:
        net.regular = False
    for number in steps:
        net.begin(number)
        if form is not None and number % 2 == 0:
            FORMS[form](net)
        else:
            _LAYERS[int(net.draw.integers(len(_LAYERS)))](net)
    return net.proto()


def _linear(net: Net) -> None:
    """A layer as networks have most, and its quantiser."""
    net.value = _product(net, net.value)
    net.value = net.quantise(_between(net, net.value))


def _product(net: Net, value: str, *, keep: bool = False) -> str:
    """A Conv of images, a MatMul or Gemm of anything else; ``keep`` keeps the shape."""
    if len(net.shape) == 3:
        return _convolution(net, value, keep)
    size = net.shape[-1] if keep else int(net.draw.choice([4, 8, 10]))
    depth, form = net.shape[-1], net.draw.random()
    if form < 0.25 and len(net.shape) == 1:
        operands = [value, net.weights([size, depth], 0)]
        if net.chance(0.5):
            operands.append(net.constant(net.draw.normal(0, 0.5, size)))
        made = net.Gemm(*operands, transB=1)
    elif form < 0.6:
        turned = net.Transpose(net.weights([size, depth], 0), perm=[1, 0])
        made = net.MatMul(value, turned)
    else:
        made = net.MatMul(value, net.weights([depth, size], 1))
    net.shape = (*net.shape[:-1], size)
    return made


def _convolution(net: Net, value: str, keep: bool) -> str:
    channels, height, width = net.shape
    depthwise = net.chance(0.3)
    kernel = int(net.draw.choice([1, 3])) if min(height, width) >= 3 else 1
    padded = keep or net.chance(0.6)
    stride = 1 if keep or net.chance(0.7) else 2
    wanted = channels if keep or depthwise else int(net.draw.choice([2, 4, 6]))
    weights = net.weights([wanted, 1 if depthwise else channels, kernel, kernel], 0)
    operands = [value, weights]
    if net.chance(0.3):
        operands.append(net.constant(net.draw.normal(0, 0.5, wanted)))
    pad = kernel // 2 if padded else 0
    made = net.Conv(
        *operands,
        kernel_shape=[kernel, kernel],
        pads=[pad] * 4,
        strides=[stride, stride],
        group=channels if depthwise else 1,
    )
    sizes = ((n + 2 * pad - kernel) // stride + 1 for n in (height, width))
    net.shape = (wanted, *sizes)
    return made


def _between(net: Net, value: str) -> str:
    """What stands between a linear operator and its quantiser."""
    count = net.channels
    if net.chance(0.3):
        bias = net.draw.normal(0, 0.5, count)
        value = net.Add(value, net.constant(net.along_channels(bias)))
    if net.chance(0.5) and len(net.shape) != 2:
        gamma = net.draw.normal(0.8, 0.6, count)
        beta, mean = net.draw.normal(0, 0.5, (2, count))
        parts = (gamma, beta, mean, net.draw.uniform(0.3, 3, count))
        value = net.BatchNormalization(value, *map(net.constant, parts))
    elif net.chance(0.3):
        factor = net.draw.normal(0.5, 0.4, count)
        factor = np.where(factor == 0, 1, factor)
        value = net.Mul(value, net.constant(net.along_channels(factor)))
    add = (net.Relu, net.Relu, net.Relu, None, None, net.Tanh, net.Sigmoid, net.LeakyRelu)
    choice = int(net.draw.integers(len(add) + 1))
    if choice == len(add):
        return net.Clip(value, net.constant(-1.0), net.constant(1.0))
    activation = add[choice]
    if activation is None:
        return value
    value = activation(value)
    if choice in _FLAT:
        net.flat.add(value)
    return value


def _residual(net: Net) -> None:
    """A sum of a value and what layers make of it, both on one grid."""
    start = net.value
    inner = net.quantise(_between(net, _product(net, start, keep=True)))
    inner = _product(net, inner, keep=True)
    if net.chance(0.85):
        inner, start = net.on_one_grid(inner, start)
    else:
        net.regular = False
    pair = (inner, start) if net.chance(0.5) else (start, inner)
    net.value = net.quantise(_between(net, net.Add(*pair)))


def _join(net: Net) -> None:
    """Two branches, joined along the channels."""
    start, shape = net.value, net.shape
    if int(np.prod(shape)) * 2 > LARGEST:
        return
    branches = [_product(net, start, keep=True) for _ in range(2)]
    if net.chance(0.8):
        branches = net.on_one_grid(*branches)
    else:
        net.regular, branches = False, [net.quantise(branch) for branch in branches]
    axis = 1 if len(shape) == 3 else len(shape)
    net.value = net.Concat(*branches, axis=axis)
    sizes = list(shape)
    sizes[axis - 1] *= 2
    net.shape = tuple(sizes)


def _pool(net: Net) -> None:
    """A pooling of images; a mean is quantised again."""
    if len(net.shape) != 3 or min(net.shape[1:]) < 2:
        return _move(net)
    choice = int(net.draw.integers(3))
    if choice == 0:
        pooled, sizes = net.GlobalAveragePool(net.value), (1, 1)
    else:
        add = net.MaxPool if choice == 1 else net.AveragePool
        pooled = add(net.value, kernel_shape=[2, 2], strides=[2, 2])
        sizes = (net.shape[1] // 2, net.shape[2] // 2)
    net.shape = (net.shape[0], *sizes)
    net.value = pooled if choice == 1 else net.quantise(pooled)


def _move(net: Net) -> None:
    """Another order of elements, or another shape."""
    if len(net.shape) == 3 and net.chance(0.5):
        net.value = net.Flatten(net.value, axis=1)
        net.shape = (int(np.prod(net.shape)),)
    elif len(net.shape) == 2:
        net.value = net.Transpose(net.value, perm=[0, 2, 1])
        net.shape = net.shape[::-1]
    elif len(net.shape) == 1 and net.shape[0] % 4 == 0:
        target = net.constant(np.array([0, 4, net.shape[0] // 4]))
        net.value = net.Reshape(net.value, target)
        net.shape = (4, net.shape[0] // 4)


def _attention(net: Net) -> None:
    """One head of attention over tokens, with or without a Softmax."""
    if len(net.shape) != 2:
        return _linear(net)
    parts = [net.quantise(_product(net, net.value, keep=True)) for _ in range(3)]
    turned = net.Transpose(parts[1], perm=[0, 2, 1])
    likeness = net.MatMul(parts[0], turned)
    if net.chance(0.6):
        root = net.constant(float(np.sqrt(net.shape[-1])))
        likeness = net.Softmax(net.Div(likeness, root), axis=-1)
        net.regular = False
    net.value = net.quantise(net.MatMul(net.quantise(likeness), parts[2]))


_LAYERS: tuple[Callable[[Net], None], ...] = (
    *[_linear] * 5,
    *[_residual] * 2,
    _join,
    _pool,
    _move,
    _attention,
)


def _mean(net: Net) -> None:
    """A mean of images, which is quantised again: over square windows, or a near miss."""
    if len(net.shape) != 3 or min(net.shape[1:]) < 2:
        return _linear(net)
    channels, height, width = net.shape
    style = net.draw.random()
    if style < 0.3 and height == width:
        net.value, net.shape = _mean_of_image(net), (channels, 1, 1)
    elif style < 0.4:
        net.value, net.shape = net.GlobalAveragePool(net.value), (channels, 1, 1)
    else:
        side = int(net.draw.integers(2, min(height, width, 3) + 1))
        kernel = [side, side - (side > 1 and net.chance(0.1))]
        step = int(net.draw.integers(1, side + 1))
        pad = int(net.chance(0.1))
        net.value = net.AveragePool(
            net.value, kernel_shape=kernel, strides=[step, step], pads=[pad] * 4
        )
        sizes = zip((height, width), kernel, strict=True)
        net.shape = (channels, *((size + 2 * pad - k) // step + 1 for size, k in sizes))
    net.value = net.quantise(_between(net, net.value) if net.chance(0.5) else net.value)


def _mean_of_image(net: Net) -> str:
    """A ReduceMean over rows and columns, or over one of them."""
    axes = [2, 3] if net.chance(0.5) else [-1, -2]
    if net.opset < 18:
        return net.ReduceMean(net.value, axes=axes, keepdims=1)
    return net.ReduceMean(net.value, net.constant(np.array(axes)), keepdims=1)


def _turn(net: Net) -> None:
    """Elementwise operators and a quantiser between two Transposes, the second optional."""
    if len(net.shape) != 3:
        return _linear(net)
    value = _product(net, net.value)
    count = net.channels
    value = net.Transpose(value, perm=[0, 2, 3, 1])
    if net.chance(0.5):
        value = net.Add(value, net.constant(net.draw.normal(0, 0.5, count)))
    if net.chance(0.5):
        factor = net.draw.normal(0.5, 0.4, count)
        value = net.Mul(value, net.constant(np.where(factor == 0, 1, factor)))
    if net.chance(0.5):
        value = net.Relu(value)
    net.value = net.Transpose(net.quantise(value), perm=[0, 3, 1, 2])


FORMS: dict[str, Callable[[Net], None]] = {
    "attention": _attention,
    "mean": _mean,
    "turn": _turn,
}
"""Layers that networks are asked to have, by name."""


OPSETS = (12, 13, 15, 17, 18, 19, 20, 21, 22, 23, 23, 24, 24)
TRIES = 8
FORM_SHARE = 0.4
"""Share of the steps that plant what passes look for, or a near miss of it."""
FURTHER_SHARE = 0.35
"""Share of the further steps, in models that have such."""
ANY = "any"
"""Kind of the recipes whose steps are of every sort."""
NETWORK = "qonnx"
"""Kind of the recipes whose models are quantised networks with operators of QONNX."""
ANNOTATED = 0.3
"""Share of the models that state the types of inner values, and of those with descriptions."""

_STEPS: tuple[structure_steps.Step, ...] = (
    *operator_steps.ELEMENTWISE_STEPS,
    *operator_steps.SHAPE_STEPS,
    *operator_steps.REDUCING_STEPS,
    *structure_steps.STEPS,
    *structure_steps.STEPS,
)


@dataclass(frozen=True)
class Recipe:
    """What one random model is made of. The same recipe always makes the same model.

    `precision` is ``NETWORK`` for a quantised network whose steps are layers, or None; a
    subclass may know others. `form` names what every second step makes, in
    ``planted.FORMS`` or for a network in ``FORMS``; None for anything.
    """

    seed: int
    steps: tuple[int, ...]
    precision: str | None = None
    form: str | None = None

    def model(self) -> ir.Model:
        """Build the model: valid, and one that ONNX Runtime has kernels for."""
        return ir.from_proto(self.proto())

    def scope(self, rng: np.random.Generator) -> GraphScope:
        """Return an empty graph of an opset that is drawn."""
        return GraphScope(self.seed, int(rng.choice(OPSETS)))

    def proto(self) -> onnx.ModelProto:
        """Build the model as onnx has it."""
        if self.precision == NETWORK:
            return network(self.seed, self.steps, self.form)
        rng = np.random.default_rng([self.seed, 2**20])
        scope = self.scope(rng)
        inputs = int(rng.integers(1, 4))
        for number in range(inputs):
            draw = scope.begin(2**20 + 1 + number)
            scope.fresh(draw)
        for step in self.steps:
            wanted = None if self.form is None or step % 2 else planted.FORMS[self.form]
            _take(scope, step, wanted)
        outputs = _outputs(scope)
        infos = [onnx.helper.make_value_info(v.name, scope.type_of(v)) for v in scope.inputs]
        graph = onnx.helper.make_graph(
            scope.nodes,
            f"random_{self.seed}",
            infos,
            [onnx.helper.make_value_info(v.name, scope.type_of(v)) for v in outputs],
            initializer=scope.initializers,
        )
        _annotate(graph, scope)
        imports = [onnx.helper.make_opsetid("", scope.opset)]
        if rng.random() < 0.1:
            imports.append(onnx.helper.make_opsetid("unread", 1))
        if scope.functions:
            imports.append(onnx.helper.make_opsetid("local", 1))
        return onnx.helper.make_model(
            graph, opset_imports=imports, functions=scope.functions, ir_version=IR_VERSION
        )

    def shrunk(self, fails: Callable[[Recipe], bool], checks: int = 200) -> Recipe:
        """Return a smaller recipe that still fails, after at most `checks` tries."""
        best, size = self, max(1, len(self.steps) // 2)
        while size and checks:
            start = 0
            while start < len(best.steps) and checks:
                rest = best.steps[:start] + best.steps[start + size :]
                checks -= 1
                candidate = replace(best, steps=rest)
                if fails(candidate):
                    best = candidate
                else:
                    start += size
            size //= 2
        return best


def recipes(count: int, *, seed: int = 0, steps: int = 12) -> Iterator[Recipe]:
    """Yield recipes of up to a number of steps."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        number = int(rng.integers(2**31))
        yield Recipe(number, tuple(range(int(rng.integers(2, steps + 1)))))


def network_recipes(count: int, *, seed: int = 0, steps: int = 5) -> Iterator[Recipe]:
    """Yield recipes of quantised networks."""
    for recipe in recipes(count, seed=seed, steps=steps):
        yield replace(recipe, precision=NETWORK)


def recipes_on(kinds: Sequence[str], count: int, *, seed: int = 0) -> Iterator[Recipe]:
    """Yield recipes of models of some kinds, which take turns.

    A kind is ``ANY``, ``NETWORK`` or the name of a form, else KeyError; none means ``ANY``.
    """
    both = zip(recipes(count, seed=seed), network_recipes(count, seed=seed), strict=True)
    for number, (plain, net) in enumerate(both):
        kind = kinds[number % len(kinds)] if kinds else ANY
        if kind == ANY:
            yield plain
        elif kind == NETWORK or kind in FORMS:
            yield net if kind == NETWORK else replace(net, form=kind)
        else:
            planted.FORMS[kind]
            yield replace(net, precision=None, form=kind)


def _annotate(graph: onnx.GraphProto, scope: GraphScope) -> None:
    """Note the types of inner values in some models, and describe the nodes of some."""
    rng = np.random.default_rng([scope.seed, 2**22])
    if rng.random() < ANNOTATED:
        named = {value.name for value in [*graph.input, *graph.output]}
        made = {name for node in graph.node for name in node.output} - named
        inner = [v for v in [*scope.values, *scope.sealed] if v.name in made]
        graph.value_info.extend(
            onnx.helper.make_value_info(v.name, scope.type_of(v)) for v in inner
        )
    if rng.random() < ANNOTATED:
        for index, node in enumerate(graph.node):
            node.doc_string = f"node {index}"
            onnx.helper.set_metadata_props(node, {"number": str(index)})


def _take(scope: GraphScope, number: int, wanted: structure_steps.Step | None = None) -> None:
    """Take one step: the first of a few drawn that fits, or the one that is wanted."""
    rng = scope.begin(number)
    among = planted.STEPS if rng.random() < FORM_SHARE else _STEPS
    if wanted is not None:
        among = (wanted,)
    elif scope.further and (rng.random() < FURTHER_SHARE or not scope.nodes):
        among = scope.further
    for turn in range(TRIES):
        step = among[int(rng.integers(len(among)))]
        # Not turn 0: numpy takes [a, b, 0] for [a, b].
        if scope.takes(step, np.random.default_rng([scope.seed, number, turn + 1])):
            return


def _outputs(scope: GraphScope) -> list[KnownValue]:
    """Choose the outputs: values that nobody reads, but for some dead ends, and a few more."""
    rng = np.random.default_rng([scope.seed, 2**21])
    read = {name for node in scope.nodes for name in _reads(node)}
    made = {name for node in scope.nodes for name in node.output}
    values = [*scope.values, *scope.sealed]
    luck = {v.name: _luck(scope.seed, v.name) for v in values}
    found = [
        v
        for v in values
        if (v.name in made and v.data is None and v.shape is not None)
        and (luck[v.name] < 0.9 if v.name not in read else luck[v.name] < 0.12)
    ]
    if not found:
        found = [v for v in values if v.name in made and v.shape is not None][-1:]
    odd = rng.random()
    if odd < 0.05:
        # An output that no node computes.
        found += [v for v in scope.values if v.name not in made][:1]
    if not found:
        found = scope.inputs[:1] or scope.values[:1]
    return found


def _luck(seed: int, name: str) -> float:
    return float(np.random.default_rng([seed, *name.encode()]).random())


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    yield from node.input
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _reads(inner)
