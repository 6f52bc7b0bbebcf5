"""``python -m benchmarks.tune.transformers``: train a decoder and a vision transformer.

    pip install scikit-learn

Writes ``decoder.onnx``, which predicts the next letter of Python's own help texts
(``pydoc_data.topics``, a part of CPython), and ``vit.onnx``, which reads the images of
``examples/digits``. Every fifth topic and 400 images are held back from training. Seeded.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.tune.tape import Adam, Array, Var, gelu, loss, normalise, rows, softmax

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "digits"
LENGTH, VOCABULARY = 64, 96
"""Letters that a sample has, and kinds of letters: those of ASCII from the space on."""


def letters(held_back: bool) -> Array:
    """Return the texts as numbers of letters: every fifth topic, or all others."""
    from pydoc_data.topics import topics

    parts = [
        text
        for place, (_, text) in enumerate(sorted(topics.items()))
        if (place % 5 == 0) is held_back
    ]
    codes = np.frombuffer("".join(parts).encode("ascii", "replace"), np.uint8).astype(np.int64)
    return np.where((codes >= 32) & (codes < 127), codes - 32, VOCABULARY - 1)


def windows(text: Array) -> Array:
    """Return samples of letters, one behind the other, of shape [samples, LENGTH + 1]."""
    count = (len(text) - 1) // LENGTH
    starts = np.arange(count) * LENGTH
    return text[starts[:, None] + np.arange(LENGTH + 1)]


class Network:
    """A transformer: its parameters, its run on a tape, and its ONNX form."""

    def __init__(self, width: int, inner: int, layers: int, heads: int, causal: bool) -> None:
        self.width, self.inner, self.layers, self.heads = width, inner, layers, heads
        self.causal, self.random = causal, np.random.default_rng(0)
        self.parameters: dict[str, Var] = {}
        for i in range(layers):
            self.add_norm(f"block{i}.norm1")
            for name in ("query", "key", "value", "out"):
                self.add_layer(f"block{i}.{name}", width, width)
            self.add_norm(f"block{i}.norm2")
            self.add_layer(f"block{i}.up", width, inner)
            self.add_layer(f"block{i}.down", inner, width)
        self.add_norm("norm")

    def add_norm(self, name: str) -> None:
        """Add gain and bias of a normalisation."""
        self.parameters[f"{name}.gain"] = Var(np.ones(self.width))
        self.parameters[f"{name}.bias"] = Var(np.zeros(self.width))

    def add_layer(self, name: str, depth: int, width: int) -> None:
        """Add weight and bias of a layer."""
        drawn = self.random.standard_normal((depth, width)) / np.sqrt(depth)
        self.parameters[f"{name}.weight"] = Var(drawn)
        self.parameters[f"{name}.bias"] = Var(np.zeros(width))

    def add_table(self, name: str, count: int) -> None:
        """Add a table of vectors."""
        self.parameters[name] = Var(self.random.standard_normal((count, self.width)) * 0.3)

    def layer(self, name: str, x: Var) -> Var:
        """Run a layer."""
        found = self.parameters
        return x @ found[f"{name}.weight"] + found[f"{name}.bias"]

    def norm(self, name: str, x: Var) -> Var:
        """Run a normalisation."""
        return normalise(x, self.parameters[f"{name}.gain"], self.parameters[f"{name}.bias"])

    def body(self, x: Var) -> Var:
        """Run the blocks on [batch, tokens, width]."""
        batch, tokens, width = x.data.shape
        size = width // self.heads
        mask = np.triu(np.full((tokens, tokens), -1e9, np.float32), 1) if self.causal else None
        for i in range(self.layers):
            h = self.norm(f"block{i}.norm1", x)
            parts = [
                self.layer(f"block{i}.{name}", h)
                .reshape(batch, tokens, self.heads, size)
                .transpose(0, 2, 1, 3)
                for name in ("query", "key", "value")
            ]
            scores = (parts[0] @ parts[1].transpose(0, 1, 3, 2)).scaled(size**-0.5)
            mixed = (softmax(scores, mask) @ parts[2]).transpose(0, 2, 1, 3)
            x = x + self.layer(f"block{i}.out", mixed.reshape(batch, tokens, width))
            h = self.norm(f"block{i}.norm2", x)
            x = x + self.layer(f"block{i}.down", gelu(self.layer(f"block{i}.up", h)))
        return self.norm("norm", x)


class Graph:
    """Builds the ONNX form of a network."""

    def __init__(self, network: Network) -> None:
        self.network, self.nodes = network, list[onnx.NodeProto]()
        self.constants = [
            numpy_helper.from_array(v.data.astype(np.float32), n)
            for n, v in network.parameters.items()
        ]

    def constant(self, name: str, array: Array) -> str:
        """Add a constant."""
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def node(self, kind: str, inputs: list[str], name: str, **attributes: object) -> str:
        """Add a node; its result has its name."""
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def layer(self, name: str, x: str) -> str:
        """Add a layer."""
        product = self.node("MatMul", [x, f"{name}.weight"], f"{name}.product")
        return self.node("Add", [product, f"{name}.bias"], name)

    def norm(self, name: str, x: str) -> str:
        """Add a normalisation."""
        inputs = [x, f"{name}.gain", f"{name}.bias"]
        return self.node("LayerNormalization", inputs, name, axis=-1, epsilon=1e-5)

    def body(self, x: str, tokens: int) -> str:
        """Add the blocks."""
        network = self.network
        size = network.width // network.heads
        split = self.constant("split", np.array([0, tokens, network.heads, size]))
        whole = self.constant("whole", np.array([0, tokens, network.width]))
        scale = self.constant("scale", np.array(size**-0.5, np.float32))
        mask = np.triu(np.full((tokens, tokens), -1e9, np.float32), 1)
        if network.causal:
            self.constant("mask", mask)
        for i in range(network.layers):
            h = self.norm(f"block{i}.norm1", x)
            parts = []
            for name, order in (
                ("query", (0, 2, 1, 3)),
                ("key", (0, 2, 3, 1)),
                ("value", (0, 2, 1, 3)),
            ):
                own = f"block{i}.{name}"
                shaped = self.node("Reshape", [self.layer(own, h), split], f"{own}.split")
                parts.append(self.node("Transpose", [shaped], f"{own}.heads", perm=order))
            own = f"block{i}.attention"
            scores = self.node("MatMul", parts[:2], f"{own}.scores")
            scores = self.node("Mul", [scores, scale], f"{own}.scaled")
            if network.causal:
                scores = self.node("Add", [scores, "mask"], f"{own}.masked")
            shares = self.node("Softmax", [scores], f"{own}.shares", axis=-1)
            mixed = self.node("MatMul", [shares, parts[2]], f"{own}.mixed")
            mixed = self.node("Transpose", [mixed], f"{own}.back", perm=(0, 2, 1, 3))
            mixed = self.node("Reshape", [mixed, whole], f"{own}.joined")
            x = self.node("Add", [x, self.layer(f"block{i}.out", mixed)], f"block{i}.first")
            h = self.layer(f"block{i}.up", self.norm(f"block{i}.norm2", x))
            h = self.node("Gelu", [h], f"block{i}.gelu", approximate="tanh")
            x = self.node("Add", [x, self.layer(f"block{i}.down", h)], f"block{i}.second")
        return self.norm("norm", x)

    def save(self, path: Path, source: object, result: object) -> None:
        """Write the model."""
        graph = helper.make_graph(self.nodes, path.stem, [source], [result], self.constants)
        opset = helper.make_opsetid("", 21)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, path)


def train_decoder(steps: int) -> None:
    """Train on text, and write the decoder."""
    network = Network(64, 128, 2, 4, causal=True)
    network.add_table("letters", VOCABULARY)
    network.add_table("places", LENGTH)
    network.add_layer("head", 64, VOCABULARY)
    found = network.parameters
    text, random = letters(False), np.random.default_rng(1)

    def scores(sample: Array) -> Var:
        x = rows(found["letters"], sample) + rows(found["places"], np.arange(LENGTH))
        return network.layer("head", network.body(x))

    optimiser = Adam(list(found.values()), 3e-3)
    for step in range(steps):
        starts = random.integers(0, len(text) - LENGTH - 1, 32)
        sample = text[starts[:, None] + np.arange(LENGTH + 1)]
        lost = loss(scores(sample[:, :-1]), sample[:, 1:])
        lost.backward()
        optimiser.update(min(1, step / 50) * (1 - step / steps) ** 0.7)
        if step % 250 == 0:
            print(f"step {step}: {float(lost.data):.3f}", flush=True)
    held = windows(letters(True))
    parts = [loss(scores(p[:, :-1]), p[:, 1:]).data * len(p) for p in np.array_split(held, 40)]
    print(f"decoder: perplexity {np.exp(sum(parts) / len(held)):.3f} on held-back topics")
    graph = Graph(network)
    x = graph.node("Gather", ["letters", "tokens"], "embedded")
    x = graph.node("Add", [x, "places"], "placed")
    last = graph.layer("head", graph.body(x, LENGTH))
    graph.node("Identity", [last], "scores")
    source = helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", LENGTH])
    shape = ["batch", LENGTH, VOCABULARY]
    result = helper.make_tensor_value_info("scores", TensorProto.FLOAT, shape)
    graph.save(HERE / "decoder.onnx", source, result)


def train_vision(steps: int) -> None:
    """Train on digits, and write the vision transformer."""
    sys.path.insert(0, str(EXAMPLE))
    from train import load_digits

    images, labels, test_images, test_labels = load_digits()
    network = Network(32, 64, 3, 4, causal=False)
    network.add_layer("patch", 4, 32)
    network.add_table("places", 16)
    network.add_layer("head", 32, 10)
    found, random = network.parameters, np.random.default_rng(1)

    def scores(batch: Array) -> Var:
        parts = batch.reshape(-1, 4, 2, 4, 2).transpose(0, 1, 3, 2, 4).reshape(-1, 16, 4)
        x = network.layer("patch", Var(parts)) + rows(found["places"], np.arange(16))
        return network.layer("head", network.body(x).mean(1))

    optimiser = Adam(list(found.values()), 2e-3, 0.05)
    for step in range(steps):
        chosen = random.integers(0, len(images), 64)
        batch = images[chosen] + random.normal(0, 0.05, images[chosen].shape)
        lost = loss(scores(batch), labels[chosen])
        lost.backward()
        optimiser.update(min(1, step / 50) * (1 - step / steps) ** 0.7)
    right = (scores(test_images).data.argmax(1) == test_labels).mean()
    print(f"vit: accuracy {right:.2%} on {len(test_labels)} held-back images")
    graph = Graph(network)
    weight = found["patch.weight"].data.T.reshape(32, 1, 2, 2)
    graph.constants = [c for c in graph.constants if c.name != "patch.weight"]
    graph.constant("patch.weight", np.ascontiguousarray(weight))
    inputs = ["image", "patch.weight", "patch.bias"]
    x = graph.node("Conv", inputs, "patch", kernel_shape=(2, 2), strides=(2, 2))
    flat = graph.constant("flat", np.array([0, 32, 16]))
    x = graph.node("Reshape", [x, flat], "patches")
    x = graph.node("Transpose", [x], "tokens", perm=(0, 2, 1))
    x = graph.body(graph.node("Add", [x, "places"], "placed"), 16)
    axes = graph.constant("axes", np.array([1]))
    x = graph.node("ReduceMean", [x, axes], "pooled", keepdims=0)
    graph.node("Identity", [graph.layer("head", x)], "scores")
    source = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])
    result = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 10])
    graph.save(HERE / "vit.onnx", source, result)


if __name__ == "__main__":
    train_vision(1500)
    train_decoder(3000)
