import random

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.errors import ModelError
from onnx_passes.model.diff import canonical_lines
from onnx_passes.model.digest import canonical_hash, leaf_key, tensor_digest
from onnx_passes.model.load import load_model
from onnx_passes.model.tensor_bytes import immutable
from tests.corpus import backend_models
from tests.tables import each_of


@each_of("text", ["ab", "c"], ["a", "bc"], ["abc", ""])
def test_strings_do_not_run_together(text):
    others = [["ab", "c"], ["a", "bc"], ["abc", ""]]
    same = [o for o in others if tensor_digest(ir.tensor(o)) == tensor_digest(ir.tensor(text))]
    assert same == [text]


def test_only_what_cannot_change_is_remembered(monkeypatch):
    array = np.zeros(4, np.float32)
    tensor = ir.Tensor(array)
    before = tensor_digest(tensor)
    array.flags.writeable = False
    assert tensor_digest(tensor) == before
    array.flags.writeable = True
    array[0] = 1
    array.flags.writeable = False
    assert tensor_digest(tensor) != before
    lasting = immutable(tensor)
    digest_of_it = tensor_digest(lasting)
    monkeypatch.setattr("onnx_passes.model.tensor_bytes.tensor_buffer", None)
    assert tensor_digest(lasting) == digest_of_it


LONG = list(range(10_000))


@each_of(
    "a, b",
    (ir.AttrInt64("k", 1), ir.AttrFloat32("k", 1.0)),
    (ir.AttrInt64s("k", [1]), ir.AttrInt64("k", 1)),
    (ir.AttrFloat32("k", 0.0), ir.AttrFloat32("k", -0.0)),
    (ir.AttrString("k", "a"), ir.RefAttr("k", "a", ir.AttributeType.STRING)),
    (ir.AttrInt64s("k", []), ir.AttrFloat32s("k", [])),
    (ir.AttrInt64s("k", LONG), ir.AttrInt64s("k", [*LONG[1:], 0])),
    (ir.AttrFloat32s("k", LONG), ir.AttrFloat32s("k", [*LONG[1:], 0])),
    (ir.AttrFloat32s("k", [0] * 10_000), ir.AttrInt64s("k", [0] * 10_000)),
)
def test_attributes_are_told_apart(a, b):
    assert leaf_key(a) != leaf_key(b)
    assert len(str(leaf_key(a))) < 300, "a list of millions takes no memory in a key"


BASE = """g (float[N, 2] x, bool c) => (float[N, 2] y, float[N, 2] z)
<float[2] w = {1, 2}>
{
    a = Add(x, w)
    b = Elu<alpha = 0.5>(a)
    y = If(c) <
      then_branch = t () => (float[N, 2] p) { s = Neg(b) p = Relu(s) },
      else_branch = e () => (float[N, 2] q) { q = my.f<k = 2>(a) }>
    z = Concat<axis = 0>(a, b, a)
    dead = Sin(b)
}"""
FUNCTION = '<domain: "my", opset_import: ["": 20]> f <k> (i) => (o) { h = Abs(i) o = Exp(h) }'


def shuffled(base: ir.Model, seed: int) -> ir.Model:
    """Rename every inner value and node, and put nodes in another order."""
    rng = random.Random(seed)
    copy = base.clone()
    public = {*copy.graph.inputs, *copy.graph.outputs}
    graphs = [copy.graph, *(f.graph for f in copy.functions.values())]
    for node in [node for graph in graphs for node in graph.all_nodes()]:
        node.name = f"n{rng.random()}"
        for value in node.outputs:
            if value.name and value not in public:
                value.name = f"v{rng.random()}"
    for graph in graphs:
        nodes = list(graph)
        graph.remove(nodes)
        rng.shuffle(nodes)
        graph.extend(nodes)
    return copy


@each_of("seed", *range(5))
def test_names_and_order_do_not_count(model, seed):
    base = model(BASE, FUNCTION)
    assert canonical_hash(shuffled(base, seed)) == canonical_hash(base)


@each_of(
    "old, new",
    ("[N, 2] x", "[M, 2] x"),
    ("float[N, 2] x", "double[N, 2] x"),
    ("(float[N, 2] x, bool c)", "(bool c, float[N, 2] x)"),
    ("(float[N, 2] y, float[N, 2] z)", "(float[N, 2] z, float[N, 2] y)"),
    ("{1, 2}", "{1, 3}"),
    ("float[2] w = {1, 2}", "double[2] w = {1, 2}"),
    ("float[2] w = {1, 2}", "float[1,2] w = {1, 2}"),
    ("Add(x, w)", "Add(w, x)"),
    ("Add(x, w)", "Sub(x, w)"),
    ("Add(x, w)", "my.Add(x, w)"),
    ("alpha = 0.5", "alpha = 0.25"),
    ("alpha = 0.5", "beta = 0.5"),
    ("axis = 0", "axis = 1"),
    ("axis = 0", "axis = 0.0"),
    ("(a, b, a)", "(a, a, b)"),
    ("(a, b, a)", "(a, b)"),
    ("Neg(b)", "Neg(a)"),
    ("Relu(s)", "Relu(b)"),
    ("my.f<k = 2>(a)", "my.f<k = 2>(b)"),
    ("my.f<k = 2>", "my.f<k = 3>"),
    ("then_branch", "else_branch_"),
    ("dead = Sin(b)", ""),
    ("dead = Sin(b)", "dead = Cos(b)"),
    ("dead = Sin(b)", "dead = Sin(b) dead2 = Sin(b)"),
    ("Abs(i)", "Neg(i)"),
    ("o = Exp(h)", "o = Exp(i)"),
    ("f <k> (i)", "f <j> (i)"),
    ('["": 20]> f', '["": 19]> f'),
)
def test_everything_else_counts(model, old, new):
    assert old in BASE + FUNCTION
    changed = model(BASE.replace(old, new), FUNCTION.replace(old, new))
    assert canonical_hash(changed) != canonical_hash(model(BASE, FUNCTION))


def test_types_of_what_branches_and_functions_hand_out_are_annotations(model):
    base = model(BASE, FUNCTION)
    branch = base.graph.node(2).attributes["then_branch"].as_graph()
    values = [branch.outputs[0], *(f.inputs[0] for f in base.functions.values())]
    for value in values:
        noted, plain = canonical_hash(base), canonical_hash(base, annotations=False)
        value.shape = ir.Shape(["K", 2])
        assert canonical_hash(base) != noted
        assert canonical_hash(base, annotations=False) == plain


def test_imports_count_where_they_are_used(model):
    body = "g (float x) => (float y) { y = my.f(x) }\n"
    inner = """<domain: "my", opset_import: ["": 20, "his": 1]> f (i) => (o)
        { c = Constant<value = bool {1}>() o = If(c) <then_branch = t () => (p)
        { p = his.g(i) }, else_branch = e () => (q) { q = Neg(i) }> }"""
    base = canonical_hash(model(body, inner))
    assert canonical_hash(model(body, inner.replace('"his": 1', '"his": 2'))) != base
    outer = model(body, inner)
    outer.opset_imports["his"] = 7  # nothing in the main graph is his
    assert canonical_hash(outer) == base


def test_metadata_producer_and_storage_do_not_count(model, tmp_path):
    base, other = model(BASE, FUNCTION), model(BASE, FUNCTION)
    other.metadata_props["k"] = "v"
    other.producer_name, other.doc_string, other.ir_version = "p", "d", 9
    other.opset_imports["unused"] = 3
    other.graph.initializers["w"].const_value = ir.tensor(np.array([1, 2], np.float32))
    assert canonical_hash(base) == canonical_hash(other)


def test_a_default_that_a_caller_may_override_is_no_constant(model):
    constant = model("g (float[1] x) => (float[1] y) <float[1] w = {1}> { y = Add(x, w) }")
    default = model("g (float[1] x, float[1] w = {1}) => (float[1] y) { y = Add(x, w) }")
    assert canonical_hash(constant) != canonical_hash(default)


def test_signed_zeros_and_nans_are_told_apart_by_bits(model):
    hashes = set()
    for bits in (0x00000000, 0x80000000, 0x7FC00000, 0x7FC00001):
        m = model("g (float[1] x) => (float[1] y) <float[1] w = {1}> { y = Add(x, w) }")
        array = np.array([bits], np.uint32).view(np.float32)
        m.graph.initializers["w"].const_value = ir.Tensor(array)
        hashes.add(canonical_hash(m))
    assert len(hashes) == 4


def test_wiring_deep_inside_counts_where_all_nodes_are_alike(model):
    """Two pairs of chains whose ends are crossed over: only the wiring differs."""
    text = """g (float x, float z) => (float y) {{ a = Neg(x) b = Neg(z) c = Neg(a) d = Neg(b)
        e = Sub({0}, {1}) f = Sub(c, d) y = Add(e, f) }}"""
    assert canonical_hash(model(text.format("a", "b"))) != canonical_hash(
        model(text.format("b", "a"))
    )


def test_a_cycle_is_named(model):
    cyclic = model("g (float x) => (float y) { a = Add(x, b) b = Relu(a) y = Abs(b) }")
    with pytest.raises(ModelError, match=r"'Add -> a', 'Relu -> b'|'Relu -> b', 'Add -> a'"):
        canonical_hash(cyclic)


def test_work_is_linear(model, monkeypatch):
    """Counts digests, which all the work goes through, rather than time."""
    from onnx_passes.model import digest

    def digests(length):
        calls = 0
        original = digest.digest

        def counting(*parts):
            nonlocal calls
            calls += 1
            assert len(repr(parts)) < 70 * length + 2000, "each part is hashed once"
            return original(*parts)

        # Every value is used twice, so that there are 2**length paths to the output.
        nodes = " ".join(f"a{i + 1} = Add(a{i}, a{i})" for i in range(length))
        chain = model(f"g (float a0) => (float y) {{ {nodes} y = Abs(a{length}) }}")
        with monkeypatch.context() as patch:
            patch.setattr(digest, "digest", counting)
            canonical_hash(chain)
        return calls

    assert digests(2000) < 10.5 * digests(200)


def test_in_the_corpus_hashes_are_equal_where_texts_are(tmp_path):
    """Two programs written apart, hash and text, must distinguish the same models."""
    text_of: dict[str, list[str]] = {}
    hash_of: dict[tuple[str, ...], str] = {}
    kinds = [
        backend_models.ids(k) for k in ("simple", "pytorch-operator", "pytorch-converted")
    ]
    for model_id in (*backend_models.ids("node")[::8], *(i for ids in kinds for i in ids)):
        path = tmp_path / "m.onnx"
        path.write_bytes(backend_models.load(model_id).model.SerializeToString())
        loaded = load_model(path).model
        value, lines = canonical_hash(loaded, annotations=False), canonical_lines(loaded)
        assert canonical_hash(shuffled(loaded, 1), annotations=False) == value, model_id
        assert text_of.setdefault(value, lines) == lines, model_id
        assert hash_of.setdefault(tuple(lines), value) == value, model_id
    assert len(text_of) > 300
