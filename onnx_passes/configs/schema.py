"""The whole of a pipeline file."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainValidator, PrivateAttr, ValidationInfo

from onnx_passes.compat.names import is_for_seed
from onnx_passes.configs import yaml_tree
from onnx_passes.configs.problems import SectionPlace, described, located
from onnx_passes.configs.sections import (
    Limits,
    Logging,
    OnnxRuntime,
    Policy,
    Reference,
    Save,
    Section,
    TuneSection,
    Verify,
    WaiverSection,
    When,
    wrong,
)
from onnx_passes.configs.steps import Places, Step, read_steps
from onnx_passes.configs.yaml_tree import Span, Tree
from onnx_passes.errors import ConfigError, did_you_mean
from onnx_passes.plain import Plain, PlainDict, PlainMapping

WHEN: tuple[When, ...] = ("each", "checkpoint", "end")


@dataclass(frozen=True)
class EngineUse:
    """An engine that checks, and when; its options are not yet checked."""

    name: str
    options: PlainMapping = field(default_factory=dict)
    when: When = "each"
    places: Places = field(default_factory=Places, compare=False, repr=False)


DEFAULT_ENGINES = (
    # Packing weights ahead selects other kernels, and costs more than the one run it is for.
    EngineUse("onnxruntime", {"optimization": "none", "prepacking": False}, "each"),
    EngineUse("onnxruntime", {"optimization": "all", "prepacking": False}, "end"),
)


def _place(info: ValidationInfo, key: str) -> tuple[Tree, yaml_tree.YamlPath]:
    if isinstance(info.context, SectionPlace):
        return info.context.tree, (*info.context.path, key)
    return Tree(), (key,)


def _steps(value: Plain, info: ValidationInfo) -> tuple[Step, ...]:
    return read_steps(value, *_place(info, "passes"))


def _engines(value: Plain, info: ValidationInfo) -> tuple[EngineUse, ...]:
    tree, path = _place(info, "engines")
    if not isinstance(value, list | tuple):
        raise wrong("a list of engines")
    return tuple(_engine(item, tree, (*path, i)) for i, item in enumerate(value))


def _read_engine(text: str, place: Span | None) -> tuple[str, PlainDict]:
    """Return the name and options of an engine, written as ``--engine`` has it."""
    if not {":", "{"} & set(text):
        return text, {}
    from onnx_passes.configs.engine_text import read_engine  # it loads ONNX Runtime

    try:
        return read_engine(text)
    except ConfigError as error:
        error.where = located(place)
        raise


def _engine(item: Plain, tree: Tree, path: yaml_tree.YamlPath) -> EngineUse:
    if isinstance(item, EngineUse):
        return item
    if isinstance(item, str):
        name, options = _read_engine(item, tree.value(path))
        return EngineUse(name, options, places=Places(tree.value(path)))
    if not isinstance(item, dict) or len(item) != 1:
        raise ConfigError(
            f"{described(item)} is not an engine",
            where=located(tree.value(path)),
            help="an engine is its name, or {name: {option: value, when: each}}",
        )
    ((name, given),) = item.items()
    options = {} if given is None else given
    if not isinstance(options, dict):
        raise ConfigError(
            f"the options of the engine {name!r} are {described(options)}, not a mapping",
            where=located(tree.value((*path, name))),
        )
    when = options.get("when", "each")
    if when not in WHEN:
        raise ConfigError(
            f"'when' is each, checkpoint or end, not {described(when)}",
            where=located(tree.value((*path, name, "when"))),
            help=did_you_mean(str(when), WHEN, "") or None,
        )
    rest = {key: value for key, value in options.items() if key != "when"}
    return EngineUse(name, rest, when, Places.of(tree.key((*path, name)), tree, (*path, name)))


def _verify(value: object) -> object:
    if value == {}:
        return {"enabled": False}  # as the seed system reads it
    # Text such as "no" is left to pydantic, which knows the words for true and false.
    return {"enabled": value} if isinstance(value, bool | str) else value


def _dumps(value: object) -> object:
    if value in ("none", "changed", "all") or (
        isinstance(value, list | tuple) and all(isinstance(v, str) and v for v in value)
    ):
        return value
    raise wrong("none, changed, all, or a list of passes")


def _reproducers(value: object) -> object:
    if value is False:
        return ""
    if isinstance(value, str) and value:
        return value
    raise wrong("a folder, or false")


class PipelineConfig(Section):
    """A pipeline file."""

    imports: tuple[str, ...] = ()
    """Modules to import first, which register passes, metrics or engines. They are found from
    the folder of this file, the working folder and the environment."""
    extends: str | None = None
    """A shipped pipeline: its steps come first, and its engines and settings count where this
    file has none."""
    passes: Annotated[tuple[Step, ...], PlainValidator(_steps)] = ()
    """The steps, in order. A shipped pipeline means its steps."""
    skip: tuple[str, ...] = ()
    """Passes and groups that are left out of the steps."""
    keep: tuple[str, ...] = ()
    """Nodes that stay, by their names or those of values that they compute: rewrites that
    remove one are left out, or the whole pass."""
    exhaustive: bool = False
    """Whether to repeat all steps until the model stops changing."""
    engines: Annotated[tuple[EngineUse, ...], PlainValidator(_engines)] = DEFAULT_ENGINES
    """The engines that models are compared on, and when."""
    reference: Reference = Field(default_factory=Reference)
    """The data that models are compared on."""
    verify: Annotated[
        Verify, BeforeValidator(_verify, json_schema_input_type=bool | Verify)
    ] = Field(default_factory=Verify)
    """What a pass must show; false switches verification off."""
    on_failure: Policy = "stop"
    """What a failed pass leads to: stop; rollback, to the model before it, and go on; or warn,
    and go on with its model."""
    granularity: Literal["pass", "application"] = "pass"
    """What 'on_failure: rollback' undoes: the whole pass, or only the rewrites that are wrong,
    where what is left of the pass then passes its checks."""
    objective: Literal["nodes", "time", "size"] | None = None
    """What rewrites that do not always pay are measured by, each before and after: nodes, the
    time of runs on the last engine, or the size of the file. Those that do not pay are undone.
    Without it none is measured."""
    strict: bool = False
    """Whether a run fails if something could not be verified."""
    waivers: tuple[WaiverSection, ...] = ()
    """What is accepted though it is not verified or fails its check; every report shows it."""
    onnxruntime: OnnxRuntime = Field(default_factory=OnnxRuntime)
    """Options of every engine 'onnxruntime'."""
    logging: Logging = Field(default_factory=Logging)
    """What is printed and kept during a run."""
    model_checker: PlainDict = Field(default={})
    """Default options of the pass model-checker."""
    shape_inference: PlainDict = Field(default={})
    """Default options of the pass shape-inference."""
    layouts: PlainDict = Field(default={})
    """Default options of the pass convert-layouts: inp and out."""
    infer_thresholds: PlainDict = Field(default={})
    """Default options of the pass infer-thresholds, such as max."""
    fold_constants: PlainDict = Field(default={})
    """Read by passes of the seed system's own, and by none here."""
    lift_constants: PlainDict = Field(default={})
    """Read by passes of the seed system's own, and by none here."""
    deduplicate_initializers: PlainDict = Field(default={})
    """Read by passes of the seed system's own, and by none here."""
    limits: Limits = Field(default_factory=Limits)
    """Where a run stops by itself."""
    dump_after: Annotated[
        Literal["none", "changed", "all"] | tuple[str, ...], BeforeValidator(_dumps)
    ] = "none"
    """After which passes the model is written: none, changed (those that changed it), all, or
    a list of passes."""
    dump_dir: str = Field(default="onnx-passes-dump", min_length=1)
    """Folder that those models go to."""
    reproducers: Annotated[
        str, BeforeValidator(_reproducers, json_schema_input_type=str | Literal[False])
    ] = "onnx-passes-failures"
    """Folder, from the working folder, that gets a reproducer of each failed check; false for
    none."""
    save: Save = Field(default_factory=Save)
    """How the result is written."""
    tune: TuneSection = Field(default_factory=TuneSection)
    """What 'onnx-passes tune' looks for."""
    extra: PlainDict = Field(default={})
    """Data for your own passes, each key a key of their 'self.config'."""

    _tree: Tree = PrivateAttr(default_factory=Tree)
    _folder: Path = PrivateAttr(default_factory=Path)
    _file: str = PrivateAttr(default="(defaults)")

    @property
    def folder(self) -> Path:
        """Folder of the file, from which its modules and reference data are found."""
        return self._folder

    @property
    def file(self) -> str:
        """Path of the file as the user gave it, or ``(defaults)``."""
        return self._file

    @property
    def tree(self) -> Tree:
        """What was written, and where."""
        return self._tree

    def attach(self, tree: Tree, file: str, folder: Path) -> None:
        """Say where this was read from; paths in it start from `folder`."""
        self._tree, self._file, self._folder = tree, file, folder
        self.verify.attach(for_seed=is_for_seed(tree.data or {}))

    def span(self, *path: str | int) -> Span | None:
        """Return where the value at ``path`` was written, or the nearest around it."""
        return self._tree.value(path)

    def where(self, *path: str | int) -> str | None:
        """Return an excerpt of the value at ``path``, or of the nearest around it."""
        return located(self.span(*path))

    def plain(self) -> PlainDict:
        """Return a copy of the file as plain data: the ``self.config`` of passes."""
        data: PlainDict = copy.deepcopy(self._tree.data) or {}
        return {**data, **copy.deepcopy(self.extra)}


Section.whole = PipelineConfig
