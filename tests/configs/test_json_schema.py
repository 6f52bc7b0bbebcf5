import json
import typing

from onnx_passes.configs.json_schema import json_schema
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.configs.sections import Section


def step_forms():
    return json_schema()["$defs"]["Step"]["anyOf"]


def test_it_is_json_with_every_reference_resolved():
    schema = json_schema()
    text = json.dumps(schema)
    assert schema["$schema"].endswith("2020-12/schema")
    references = {part.split('"')[0] for part in text.split('"#/$defs/')[1:]}
    assert references <= set(schema["$defs"])


def test_editors_complete_the_names_of_passes_and_groups():
    names = {form.get("const"): form for form in step_forms()}
    assert {"cfg-fold", "cfg-tidy", "cfg-group", "checkpoint"} <= set(names)
    assert names["cfg-fold"]["description"] == "Fold for a test."
    assert names["cfg-group"]["description"] == "The group of cfg-fold, cfg-tidy."


def test_editors_complete_the_options_of_a_pass():
    (uses,) = (
        f["properties"] for f in step_forms() if "on_failure" in f.get("properties", {})
    )
    options = uses["cfg-fold"]
    assert options["additionalProperties"] is False
    assert options["properties"]["mode"]["enum"] == ["fast", "safe"]
    assert options["properties"]["size_limit"]["type"] == ["integer", "string"]
    assert options["properties"]["size_limit"]["default"] == 1024


def test_an_option_that_json_lacks_is_left_to_the_loader():
    import re

    from onnx_passes.passes import Transformation, registry

    @registry.register()
    class CfgCallable(Transformation):
        make: typing.Callable[[], re.Match] | None = None

        def call(self, model): ...

    (uses,) = (
        f["properties"] for f in step_forms() if "on_failure" in f.get("properties", {})
    )
    assert uses["cfg-callable"]["properties"] == {"make": {}}


def sections(cls):
    yield cls
    for field in cls.model_fields.values():
        for hint in (field.annotation, *typing.get_args(field.annotation)):
            if isinstance(hint, type) and issubclass(hint, Section) and hint is not cls:
                yield from sections(hint)


def test_every_key_says_what_it_means():
    silent = {
        f"{cls.__name__}.{name}"
        for cls in sections(PipelineConfig)
        for name, field in cls.model_fields.items()
        if not field.description
    }
    assert silent == set()
