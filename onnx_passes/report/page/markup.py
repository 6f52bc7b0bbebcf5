"""Build HTML as a tree, so that no text from a model can ever become markup."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias
from xml.etree import ElementTree as ET

from onnx_passes.report.text import printable

Element: TypeAlias = ET.Element
Child: TypeAlias = "Element | str | Iterable[Child] | None"

_LONGEST = 400


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Element:
    """Return an element.

    Args:
        name: Its name.
        children: Elements, texts, and nests of both; None is left out.
        attributes: ``class_`` means ``class``, and ``_`` means ``-``; True writes the bare
            attribute; None and False leave it out.
    """
    element = ET.Element(name)
    for key, value in attributes.items():
        if value is not None and value is not False:
            text = (
                "" if value is True else f"{value:.6g}" if type(value) is float else str(value)
            )
            element.set(key.rstrip("_").replace("_", "-"), printable(text))
    _fill(element, children)
    return element


def named(text: str, **attributes: str) -> Element:
    """Return a name from the model as code; a very long one loses its middle."""
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"
    return tag("code", text, **attributes)


def render(root: Element) -> str:
    """Return an element as HTML text."""
    return ET.tostring(root, encoding="unicode", method="html")


def _fill(element: Element, children: Iterable[Child]) -> None:
    for child in children:
        if isinstance(child, Element):
            element.append(child)
        elif isinstance(child, str):
            _append_text(element, printable(child))
        elif child is not None:
            _fill(element, child)


def _append_text(element: Element, text: str) -> None:
    if len(element):
        element[-1].tail = (element[-1].tail or "") + text
    else:
        element.text = (element.text or "") + text
