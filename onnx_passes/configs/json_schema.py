"""The JSON Schema of pipeline files, with which editors complete and check them."""

from __future__ import annotations

import inspect

from pydantic import BaseModel
from pydantic.errors import PydanticInvalidForJsonSchema

from onnx_passes.configs.schema import WHEN, PipelineConfig
from onnx_passes.configs.sections import Reference
from onnx_passes.configs.steps import CheckpointSettings, GroupSettings, UseSettings
from onnx_passes.contracts import metrics
from onnx_passes.passes import registry
from onnx_passes.passes.base import Pass
from onnx_passes.passes.options import option_fields, option_model, parse_size
from onnx_passes.plain import PlainDict
from onnx_passes.runtime.engines import engine_names
from onnx_passes.runtime.isolated import TIME_LIMIT

_Schema = PlainDict
_REF = "#/$defs/{model}"
_STEPS: _Schema = {
    "anyOf": [
        {"type": "array", "items": {"$ref": "#/$defs/Step"}},
        {"type": "string", "description": "The text of a pipeline."},
    ]
}


def json_schema() -> _Schema:
    """Return the schema, with every registered pass and its options.

    Passes that a pipeline file imports are accepted as well; they are completed if they are
    registered when this is called.
    """
    definitions: _Schema = {}
    schema = _of(PipelineConfig, definitions)
    properties = schema["properties"]
    for key, value in (("passes", _STEPS), ("engines", _engines())):
        properties[key] = {**value, "description": properties[key]["description"]}
    reference = definitions["Reference"]["properties"]
    for other, name in Reference.also.items():
        reference[other] = {**reference[name], "description": f"Another name of '{name}'."}
    ranges = definitions["Verify"]["properties"]["metrics"]
    known = sorted(metrics.registered())
    ranges["properties"] = dict.fromkeys(known, ranges["additionalProperties"])
    definitions["Step"] = _step(definitions)
    for cls in registry.all_passes():
        section = cls.name.replace("-", "_")
        if section in properties:
            properties[section] |= _options(cls, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "onnx-passes pipeline",
        "$defs": definitions,
    }


def _of(model: type[BaseModel], definitions: _Schema) -> _Schema:
    """Return the schema of a model, what it refers to moved to ``definitions``."""
    schema = model.model_json_schema(ref_template=_REF)
    definitions.update(schema.pop("$defs", {}))
    return schema


def _step(definitions: _Schema) -> _Schema:
    passes = registry.all_passes()
    groups = registry.groups()
    names = [{"const": cls.name, "description": _summary(cls)} for cls in passes]
    names += [
        {"const": name, "description": f"The group of {', '.join(c.name for c in members)}."}
        for name, members in groups.items()
    ]
    names.append(
        {"const": "checkpoint", "description": "Hold the model against the original."}
    )
    use = _of(UseSettings, definitions)["properties"]
    uses = {cls.name: _options(cls, definitions) for cls in passes}
    group = _of(GroupSettings, definitions)["properties"]
    checkpoint = _of(CheckpointSettings, definitions)
    return {
        "anyOf": [
            *names,
            {"type": "string", "description": "A step as text: 'fold-constants{a=1}'."},
            {
                "type": "object",
                "description": "A pass with options, and settings beside it.",
                "properties": {**uses, **use},
                "additionalProperties": {"type": ["object", "null"]},
                "not": {"anyOf": [{"required": ["group"]}, {"required": ["checkpoint"]}]},
            },
            {
                "type": "object",
                "description": "Steps that belong together.",
                "properties": {"group": _STEPS, **group},
                "required": ["group"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {"checkpoint": {"anyOf": [checkpoint, {"type": "null"}]}},
                "required": ["checkpoint"],
                "additionalProperties": False,
            },
        ]
    }


def _options(cls: type[Pass], definitions: _Schema) -> _Schema:
    try:
        options = _of(option_model(cls), definitions)
    except PydanticInvalidForJsonSchema:
        # An option of a type that JSON has not: any value, checked when the file is loaded.
        options = {"properties": {name: {} for name in option_fields(cls)}}
    properties = options.get("properties", {})
    for name, field in option_fields(cls).items():
        if any(getattr(m, "func", None) is parse_size for m in field.metadata):
            properties[name] |= {"type": ["integer", "string"], "examples": ["1 MiB"]}
    return {
        "type": ["object", "null"],
        "description": _summary(cls),
        "properties": properties,
        "additionalProperties": False,
    }


def _engines() -> _Schema:
    when = {
        "enum": list(WHEN),
        "default": "each",
        "description": "After each pass, at checkpoints and the end, or only at the end.",
    }
    common: _Schema = {
        "when": when,
        "isolate": {
            "type": "boolean",
            "description": "Whether it runs in a child process, which may crash or hang.",
        },
        "time_limit": {
            "type": ["number", "null"],
            "exclusiveMinimum": 0,
            "default": TIME_LIMIT,
            "description": "Seconds for one prepare or run in a child process.",
        },
        "memory_limit": {
            "type": ["integer", "string", "null"],
            "default": None,
            "description": "Memory of its own that a child process may have.",
        },
    }
    options = {"type": ["object", "null"], "properties": common}
    named = dict.fromkeys(engine_names(), options)
    return {
        "type": "array",
        "items": {
            "anyOf": [
                {"enum": engine_names()},
                {"type": "string"},
                {
                    "type": "object",
                    "properties": named,
                    "additionalProperties": options,
                    "minProperties": 1,
                    "maxProperties": 1,
                },
            ]
        },
    }


def _summary(cls: type[Pass]) -> str:
    return (inspect.getdoc(cls) or cls.name).partition("\n")[0]
