"""The prose of a page or a module: sentences with the lines that they start at."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

Lines = list[tuple[int, str]]

_FENCE = re.compile(r"\s*(```|~~~)")
_ITEM = re.compile(r"\s*([-*+]|\d+\.)\s+")
_NOT_PROSE = re.compile(r"\s*(\||#|<|!\[|---|\[[^\]]+\]:)")
_SECTION = re.compile(r"(Args|Attributes|Returns|Raises|Yields):$")
_HEADING = re.compile(r"(Before|After|Adds|Finds|Leaves alone|Sound because)\b")
_ENTRY = re.compile(r"\*{0,2}[\w.\[\], *]+( \([^)]*\))?: ")
_DIRECTIVE = re.compile(r"#!|noqa|type:|pragma|fmt:|mypy:|ruff:")
_CODE = re.compile(r"(`+)(?:(?!\1).)+?\1|:\w+:`[^`]+`", re.S)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


def sentences(paragraph: str, ends: str = ".?!") -> list[str]:
    """Return the sentences of a paragraph; a sentence ends with a mark of ``ends``."""
    parts = re.split(rf"(?<=[{ends}])[\"')*_]*\s+", without_code(paragraph))
    return [part for part in parts if part]


def without_code(paragraph: str) -> str:
    """Return a paragraph in which a code span is one word, and a link is its text."""
    return _LINK.sub(r"\1", _CODE.sub("CODE", paragraph))


def paragraphs(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs of a file, each with its first line's number, from 1."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        yield from of_page(text)
    else:
        yield from docstrings(text)


def of_page(text: str) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs and list items of Markdown, without code, tables and headings."""
    prose: Lines = []
    fenced = blank = code = False
    for number, line in enumerate(text.splitlines(), 1):
        if _FENCE.match(line):
            fenced = not fenced
            line = ""
        listed = bool(prose) and bool(_ITEM.match(prose[-1][1]))
        code = line.startswith("    ") and (code or blank or not prose) and not listed
        blank = not line.strip()
        if fenced or code or blank or _NOT_PROSE.match(line):
            prose.append((number, ""))
        elif item := _ITEM.match(line):
            prose += [(number, ""), (number, line[item.end() :])]
        else:
            prose.append((number, line))
    yield from _joined(prose)


def docstrings(text: str) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs of the docstrings in a module, those of fields too."""
    for statement in statements(ast.parse(text)):
        if (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str)
        ):
            yield from of_docstring(statement.value.value, statement.lineno)


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements inside of a node, at any depth."""
    for field in ("body", "orelse", "handlers", "finalbody", "cases"):
        inner = getattr(node, field, None)
        for each in inner if isinstance(inner, list) else ():
            yield each
            yield from statements(each)


def of_docstring(text: str, first: int = 1) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs of one docstring; entries are paragraphs, code is not."""
    prose: Lines = []
    lines = text.splitlines()
    margin = min((_indent(li) for li in lines[1:] if li.strip()), default=0)
    section = code = False
    for number, line in enumerate(lines, first):
        body = line.strip() if number == first else line[margin:].rstrip()
        depth = _indent(body)
        if not body:
            prose.append((number, ""))
            continue
        if depth == 0:
            section, code = bool(_SECTION.match(body)), body.endswith(("::", "Examples:"))
        if (code and depth) or _SECTION.match(body) or body.strip() in ("\b",):
            prose.append((number, ""))
        elif (
            _HEADING.match(body)
            or _ITEM.match(body)
            or (section and depth == 4 and _ENTRY.match(body.strip()))
        ):
            prose += [(number, ""), (number, _ITEM.sub("", body))]
        else:
            prose.append((number, body))
    yield from _joined(prose)


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a module; those on consecutive lines are one."""
    prose: Lines = []
    joins = False
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        number, body = token.start[0], token.string.lstrip("# ")
        alone = not token.line[: token.start[1]].strip()
        if not (joins and alone and prose[-1][0] == number - 1):
            prose.append((number, ""))
        joins = alone
        prose.append((number, "" if _DIRECTIVE.match(body) else body))
    yield from _joined(prose)


def _joined(prose: Lines) -> Iterator[tuple[int, str]]:
    """Yield paragraphs of lines; an empty line ends one."""
    start, parts = 0, list[str]()
    for number, line in [*prose, (0, "")]:
        if line.strip():
            start = start if parts else number
            parts.append(line.strip())
        elif parts:
            yield start, " ".join(parts)
            parts = []


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
