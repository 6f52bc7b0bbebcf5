"""How shapes, element types and lists of names are written on the command line."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    import onnx_ir as ir

Shape = tuple[int | str, ...]
_SIZE = r"\d{1,18}"


def read_shape(text: str, whole: str, option: str) -> Shape:
    """Read ``1x3x224x224``, or ``[batch,3,224,224]`` if dimensions have names.

    ``[]`` is a scalar. ``whole`` is what the user wrote, for the message. UsageError for other
    texts.
    """
    if re.fullmatch(rf"{_SIZE}(x{_SIZE})*", text):
        return tuple(int(size) for size in text.split("x"))
    listed = re.fullmatch(r"\[([^\[\]]*)\]", text)
    inner = listed[1].strip() if listed else ""
    dims = [dim.strip() for dim in inner.split(",")] if inner else []
    if listed is None or not all(re.fullmatch(rf"{_SIZE}|[^\W\d][^,]*", dim) for dim in dims):
        parts = enumerate(filter(None, re.split(r"[x,\[\] ]+", text)))
        meant = [part if re.fullmatch(r"\w+", part) else f"dim{i}" for i, part in parts]
        example = f"[{','.join(meant)}]" if len(meant) > 1 else "[batch,3,224,224]"
        raise UsageError(
            f"{option} {whole!r}: {text!r} is not a shape",
            help=f"write sizes as 1x3x224x224; with names for dynamic ones as {example}",
        )
    return tuple(int(dim) if dim.isdecimal() else dim for dim in dims)


def read_named_shape(text: str, option: str) -> tuple[str, Shape]:
    """Read ``x:1x3x224x224``: a name, and a shape behind it."""
    name, colon, shape = text.rpartition(":")
    if not (name and colon):
        raise UsageError(f"{option} {text!r} has no ':'", help="write NAME:1x3x224x224")
    return name, read_shape(shape, text, option)


def read_size(text: str, option: str) -> int:
    """Read ``500MB`` or ``2GiB`` as bytes."""
    from onnx_passes.passes.options import parse_size

    try:
        size = parse_size(text)
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: {error}") from error
    assert isinstance(size, int)
    return size


def looks_like_shape(text: str) -> bool:
    """Whether a text is meant as a shape rather than as an element type."""
    return bool(re.match(r"[\[\d]", text))


def read_dtype(text: str, whole: str, option: str) -> ir.DataType:
    """Read ``float32``, or any other element type, by numpy's or ONNX's name."""
    import onnx_ir as ir

    known = {d.name.lower(): d for d in ir.DataType if d is not ir.DataType.UNDEFINED}
    known |= {"float32": ir.DataType.FLOAT, "float64": ir.DataType.DOUBLE}
    if text.lower() not in known:
        raise UsageError(
            f"{option} {whole!r}: {text!r} is not an element type",
            help=did_you_mean(text, known),
        )
    return known[text.lower()]


class Several(click.Option):
    """An option that is repeated, or given several words: ``--outputs a b``.

    Words belong to it up to the next option, or the name of a file that there is: that is an
    argument of the command. Choices end at the first word that is not a choice, and may be
    joined by commas.
    """

    def takes(self, word: str) -> bool:
        """Whether a word after the first belongs to this option too."""
        if word.startswith("-"):
            return False
        if isinstance(self.type, click.Choice):
            return set(word.split(",")) <= set(self.type.choices)
        return not Path(word).is_file()


_MODELS = (".onnx", ".onnxtxt", ".onnxtext")


def names_a_model(word: str) -> bool:
    """Whether a word is meant as the file of a model."""
    return word.lower().endswith(_MODELS)


class SeveralFiles(Several):
    """An option of several files or folders, but not of what is named as a model.

    So it takes all words that a shell makes of ``--data shards/*.tar``.
    """

    def takes(self, word: str) -> bool:
        """Whether a word after the first belongs to this option too."""
        return not word.startswith("-") and not names_a_model(word)


class ManyWords(click.Command):
    """A command with options of :class:`Several` words."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat each such option before each of its words."""
        options = {
            text: param
            for param in self.params
            if isinstance(param, Several)
            for text in param.opts
        }
        return super().parse_args(ctx, list(_spread(args, options)))


def _spread(args: list[str], options: dict[str, Several]) -> Iterable[str]:
    words = iter(args)
    current: Several | None = None
    name = ""
    for word in words:
        if word == "--":
            yield word
            yield from words
            return
        if word in options:
            current, name = options[word], word
            first = next(words, None)
            yield from _spell(current, name, first)
        elif current is not None and current.takes(word):
            yield from _spell(current, name, word)
        else:
            current = None
            yield word


def _spell(option: Several, name: str, word: str | None) -> Iterable[str]:
    if word is None:
        yield name
        return
    parts = word.split(",") if isinstance(option.type, click.Choice) else [word]
    for part in parts:
        yield from (name, part)


def read_range(text: str) -> tuple[str, tuple[float, float]]:
    """Read ``accuracy=0.97:1``, a metric and its range; an end that is left out is open."""
    name, equals, span = text.rpartition("=")
    low, colon, high = span.partition(":")
    try:
        bounds = float(low or -math.inf), float(high or math.inf)
    except ValueError:
        bounds = (math.nan, math.nan)
    if not (name and equals and colon and bounds[0] <= bounds[1]):
        raise UsageError(
            f"--metric {text!r} is not a range of a metric",
            help="write NAME=LOW:HIGH, such as accuracy=0.97:1, or NAME=LOW: for no upper end",
        )
    return name, bounds
