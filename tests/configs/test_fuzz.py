"""Whatever a pipeline file holds, it loads or is refused in one clear sentence."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.configs.pipeline_files import default_config, load_config
from onnx_passes.configs.resolve import format_pipeline, resolve
from onnx_passes.errors import ConfigError

VALID = """\
imports: []
passes:
  - cfg-fold: {size_limit: 1 MiB, mode: safe}
    on_failure: rollback
    tolerance: {rtol: 1e-3, outputs: {y: {atol: 1}}}
  - "cfg-tidy,{group: [{cfg-fold: {ratio: .5}}], repeat: fixpoint, limit: 3}"
  - group: [cfg-group, &c checkpoint]
    repeat: fixpoint
    limit: 5
    name: loop
  - *c
exhaustive: false
engines: [onnxruntime, {reference: {when: end}}]
reference: {inputs: [x.npy], seed: 1, samples: 2, ranges: {x: [0, 1]}, dims: {n: [1, 2]}}
verify:
  scope: model
  tolerance: {atol: 1.0e-6}
  metrics: {max_abs_error: [0.0, 0.01]}
on_failure: warn
onnxruntime: {providers: [[CPUExecutionProvider, {}]], full_context_dump: false}
logging: {verbose: true, checkpoint: false}
limits: {pass_seconds: 1, rewrites: null}
dump_after: [cfg-fold]
save: {external_data: keep, size_threshold: 1 KiB}
extra: {a: 1, b: 2}
"""
TOKENS = [
    *["{", "}", "[", "]", ":", ": ", "- ", ",", "\n", "\t", "  ", "&a ", "*a", "|"],
    *["!!str ", "!x ", "'", '"', "#", "? ", "---\n", "...", "%", "@", "~", "null", "true"],
    *["-1", "1e999", ".nan", "0x", "\x00", "\x85", "\u2028", "\ufeff", "é", "😀", "\\ud800"],
    *["<", ">", "(", ")", "cfg-fold"],
]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "cfg.yaml"


def try_it(path: Path, content: bytes, overrides: tuple[str, ...] = ()) -> str:
    """Return "loaded", or the message of the refusal, which must say where."""
    path.write_bytes(content)
    try:
        resolved = resolve(load_config(path, overrides))
        text = format_pipeline(resolved)
    except ConfigError as error:
        refusal = error
    else:
        assert (
            not resolved.steps or format_pipeline(resolve(default_config((), [text]))) == text
        )
        return "loaded"
    assert str(refusal).encode()
    place = f"{refusal.message}\n{refusal.where}"
    assert any(name in place for name in (str(path), "--set"))
    return refusal.message


@st.composite
def mutants(draw):
    """A valid file with some parts cut out, copied, or put in."""
    text = VALID
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        length = draw(st.integers(0, 12))
        new = draw(st.sampled_from(["", *TOKENS]) | st.text(max_size=3))
        if draw(st.booleans()):
            start = draw(st.integers(0, len(text)))
            new += text[start : start + draw(st.integers(0, 40))]
        text = text[:at] + new + text[at + length :]
    return text.encode("utf-8", "surrogatepass")


fuzz = settings(max_examples=60)


def test_the_file_that_is_mutated_loads(path):
    assert try_it(path, VALID.encode()) == "loaded"


@fuzz
@given(content=mutants())
def test_mutants_of_a_valid_file(path, content):
    try_it(path, content)


keys = st.sampled_from(
    ["passes", "passes.0", "passes.1.x", "verify.scope", "reference.dims.n", "x", "engines.1"]
)


@fuzz
@given(
    text=st.text(max_size=20)
    | st.builds("{}={}{}".format, keys, st.sampled_from(TOKENS), st.text(max_size=8))
)
def test_overrides(path, text):
    try_it(path, VALID.encode(), (text,))
