import numpy as np

from tests.tables import each_of

RNG = np.random.default_rng(0)
POSITIONS = np.array([[0, 1, 2, 3], [3, 5, 9, 0]], np.int64)

WIDTHS = {"x": 24, "c": 4, "s": 4}


def check(rewrites, attributes, shape, *, positions=True, half=4):
    rows = "10" if positions else "2,4"
    dims = ",".join(map(str, shape))
    more, names = (", int64[2,4] p", ", p") if positions else ("", "")
    text = f"""<ir_version: 11, opset_import: ["" : 23]> g
    (float[{dims}] x, float[{rows},{half}] c, float[{rows},{half}] s{more})
    => (float[{dims}] y) {{
    y = RotaryEmbedding{attributes}(x, c, s{names}) }}"""
    cache = (10, half) if positions else (2, 4, half)
    feeds = {
        "x": RNG.standard_normal(shape, np.float32),
        "c": RNG.standard_normal(cache, np.float32),
        "s": RNG.standard_normal(cache, np.float32),
        **({"p": POSITIONS} if positions else {}),
    }
    model = rewrites(text, feeds=[feeds])
    assert "RotaryEmbedding" not in {node.op_type for node in model.graph}


@each_of("positions", True, False)
@each_of("attributes", "", "<interleaved = 1>")
@each_of("shape", (2, 3, 4, 8), (2, 4, 24))
def test_fires(attributes, shape, positions, rewrites):
    if len(shape) == 3:
        attributes = attributes.replace(">", ", num_heads = 3>") or "<num_heads = 3>"
    check(rewrites, attributes, shape, positions=positions)


def test_fires_on_a_partial_rotation(rewrites):
    check(rewrites, "<rotary_embedding_dim = 4>", (2, 3, 4, 8), half=2)


@each_of("hidden", "24", "D")
def test_fires_where_the_batch_turns_out_to_be_empty(hidden, rewrites):
    """A Reshape of three axes to four copies two, and infers no size beside an empty one."""
    values = f"float[B,S,{hidden}] x, float[B,S,4] c, float[B,S,4] s"
    text = f"""<ir_version: 11, opset_import: ["" : 23]> g ({values})
    => (float[B,S,{hidden}] y) {{ y = RotaryEmbedding<num_heads = 3>(x, c, s) }}"""
    feeds = [
        {name: np.ones((batch, 4, width), np.float32) for name, width in WIDTHS.items()}
        for batch in (0, 2)
    ]
    rewrites(text, feeds=feeds)
