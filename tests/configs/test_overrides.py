import pytest

from onnx_passes.configs.overrides import apply_override
from onnx_passes.configs.source import Source
from onnx_passes.configs.yaml_tree import parse_yaml
from onnx_passes.errors import ConfigError

FILE = """\
verify:
  scope: auto
  tolerance: {rtol: 1}
off: false
passes: [a, {b: {x: 1}}]
empty:
"""


def override(text):
    tree = parse_yaml(Source("f.yaml", FILE))
    apply_override(tree, text)
    return tree


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("verify.scope=model", ("verify", "scope"), "model"),
        ("verify.tolerance={rtol: 1e-3}", ("verify", "tolerance"), {"rtol": 1e-3}),
        ("verify=false", ("verify",), False),
        ("passes.1.b.x=[1, 2]", ("passes", 1, "b", "x"), [1, 2]),
        ("passes.0=c", ("passes", 0), "c"),
        ("new.deep.key=1", ("new", "deep", "key"), 1),
        ("empty.x=1", ("empty", "x"), 1),
        ('ranges."input.1"=[0, 1]', ("ranges", "input.1"), [0, 1]),
        ("ranges.'a=b'=1", ("ranges", "a=b"), 1),
        ("x=a=b", ("x",), "a=b"),
        ("x=", ("x",), None),
        ("x.0=1", ("x", "0"), 1),
    ],
)
def test_a_key_is_set(text, path, value):
    tree = override(text)
    found = tree.data
    for part in path:
        found = found[part]
    assert found == value


def test_the_rest_stays():
    tree = override("verify.scope=model")
    assert tree.data["verify"]["tolerance"] == {"rtol": 1}
    assert tree.value(("verify", "tolerance", "rtol")).place == "f.yaml:3:21"


def test_what_an_override_set_is_blamed_on_it():
    tree = override("verify.tolerance={rtol: 1e-3, atol: x}")
    assert tree.value(("verify", "tolerance", "atol")).place == "--set, column 37"
    assert tree.key(("verify", "tolerance", "atol")).place == "--set, column 31"
    assert tree.key(("verify", "tolerance")).place == "--set, column 8"


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("", "expected a key", 1),
        ("verify", "expected '='", 7),
        ("verify.=1", "expected a key", 8),
        ("=1", "expected a key", 1),
        ("verify scope=1", "expected '='", 7),
        ("off.x=1", "'off' is false, which has no key 'x'", 5),
        ("verify.scope.x=1", "'verify.scope' is the text 'auto'", 14),
        ("passes.2=a", "a list with items 0 to 1, and '2' is none", 8),
        ("passes.-1=a", "'-1' is none of them", 8),
        ("passes.b=a", "'b' is none of them", 8),
        ("passes.99999999999999999999=a", "is none of them", 8),
        ("x=[1", "not valid YAML", 5),
        ("x={a: 1, a: 2}", "'a' is given twice", 10),
        ("x=!!python/name:os.system", "tag", 3),
    ],
)
def test_complaints_point_into_the_override(text, message, column):
    with pytest.raises(ConfigError) as caught:
        override(text)
    assert message in caught.value.message
    assert f"--set, column {column}\n" in caught.value.where
