"""What the made pages are made of: expressions, tables, commands, keys and docstrings."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import click
import pytest

from onnx_passes.cli.main import COMMANDS, program
from tests.tables import each_of

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def module():
    def load(name):
        spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
        found = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = found
        spec.loader.exec_module(found)
        return found

    return load


def labels(svg):
    return [t.text or "" for t in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


@each_of(
    "before, after, shown",
    ("Relu(Relu(x))", "Relu(x)", ["Relu", "x", "Relu", "x", "Relu"]),
    ("Clip<min = 0>(x, [1, 2])", "x", ["x", "[1, 2]", "Clip", "x"]),
    ("Mul(x, Sigmoid(x))", "Swish(x)", ["x", "Sigmoid", "Mul", "x", "Swish"]),
)
def test_expressions_are_drawn(module, before, after, shown):
    text = f"Do it.\n\nBefore: ``{before}``\nAfter:  ``{after}``\n\nSound because."
    found = [label for label in labels(module("drawings").drawing(text)) if label]
    assert sorted(found) == sorted(["Before", "After", *shown])


@each_of("before", "a chain of nodes", "Relu(x", "Relu(x))", "x", "relu(x)")
def test_other_text_is_not_drawn(module, before):
    text = f"Do it.\n\nBefore: ``{before}``\nAfter:  ``x``\n"
    assert module("drawings").drawing(text) is None


def test_each_command_and_option_is_on_the_page(module):
    page = module("references").command_line()
    context = click.Context(program)
    for name in COMMANDS:
        assert f"\n## {name}\n" in page
        command = program.get_command(context, name)
        for leaf in getattr(command, "commands", {None: command}).values():
            for param in leaf.params:
                if not isinstance(param, click.Option) or param.hidden:
                    continue
                named = any(o in page for o in param.opts)
                assert named or "--debug" in param.opts


def test_each_key_of_a_pipeline_file_is_on_the_page(module):
    from onnx_passes.configs.schema import PipelineConfig

    page = module("references").pipeline_files()
    schema = PipelineConfig.model_json_schema()
    for key in (*schema["properties"], *schema["$defs"]["Verify"]["properties"]):
        assert f"| `{key}` |" in page


def test_the_page_of_the_python_api_has_arguments_and_errors(module):
    page = module("references").python_api()
    part = page.partition("\n## run\n")[2].partition("\n## ")[0]
    assert re.search(r"^- `progress`: Called after each pass", part, re.M)
    assert re.search(r"^- `ModelError`: ", part, re.M)
    assert "pipeline: object = 'optimize'" in part.replace('"', "'")


def without_description(page):
    """Yield the parameters that a page of functions lists and does not describe.

    A single one is described by the function's own sentence.
    """
    for part in re.split("^##+ ", page, flags=re.M)[1:]:
        signature = re.search("```python\n(.*?)\n```", part, re.S)
        if signature is not None:
            given = ast.parse(f"def {signature[1]}: ...").body[0].args
            listed = [*given.args, given.vararg, *given.kwonlyargs]
            names = [p.arg for p in listed if p is not None and p.arg != "self"]
            if len(names) > 1:
                yield from (name for name in names if f"\n- `{name}`: " not in part)


def test_the_page_of_the_python_api_describes_each_argument(module):
    assert [*without_description(module("references").python_api())] == []


def test_an_argument_without_description_is_found():
    page = "## run\n```python\nrun(self, a: int, *b: str, c='x') -> None\n```\n- `c`: It.\n"
    assert [*without_description(page)] == ["a", "b"]
    assert [*without_description(page.replace("a: int, *b: str, ", ""))] == []


def test_the_pages_of_the_passes_are_up_to_date():
    script = DOCS / "generate.py"
    run = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
