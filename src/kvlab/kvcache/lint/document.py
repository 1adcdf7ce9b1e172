"""A YAML or JSON text as plain values, with the line of every key."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from kvlab.errors import KvlabError
from kvlab.kvcache.lint.types import Finding, Severity

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MAX_BYTES = 1_000_000
"""A configuration is a few kilobytes; more is another kind of file."""
MAX_NODES = 50_000
MAX_DEPTH = 50
MAX_NUMBER_BITS = 256
_LONG_NUMBER = "it holds a number longer than any setting"
_WRONG_TAG = (ArithmeticError, AttributeError, LookupError, TypeError)
"""What PyYAML lets through when a tag such as !!timestamp or !!bool stands before something else."""
EXTRA = "extra_config"
"""The part of an lmcache.yaml that LMCache hands to its back ends as it is."""

Path = tuple[str, ...]


class UnreadableError(KvlabError):
    """The text is no configuration file at all."""


@dataclass(frozen=True)
class Document:
    """A parsed file: `values` as plain data, `lines` of keys by path, keys that were given twice."""

    values: dict[str, Any]
    lines: Mapping[Path, int]
    twice: tuple[tuple[str, int], ...]

    def get(self, *path: str) -> Any:
        """The value at a path, or None where there is none."""
        value: Any = self.values
        for key in path:
            if not isinstance(value, dict) or key not in value:
                return None
            value = value[key]
        return value

    def has(self, *path: str) -> bool:
        """Whether the file names this key, even with an empty value."""
        return path in self.lines

    def finding(self, code: str, severity: Severity, path: Path, reason: str, remedy: str) -> Finding:
        """A finding at a key of this file; line 0 if the key is absent."""
        return Finding(code, severity, ".".join(path), self.lines.get(path, 0), reason, remedy)


def read(text: str, name: str) -> Document:
    """Parse a file's text.

    Raises:
        UnreadableError: not YAML (or JSON), not a mapping, or far larger than a configuration.
    """
    if len(text) > MAX_BYTES:
        raise UnreadableError(f"{name} has {len(text)} characters; that is no configuration file.")
    try:
        node = yaml.compose(text, Loader=_Loader)
        if node is None:
            raise UnreadableError(f"{name} is empty.")
        if not isinstance(node, yaml.MappingNode):
            raise UnreadableError(f"{name} does not hold a mapping of keys to values at its top.")
        lines: dict[Path, int] = {}
        twice: list[tuple[str, int]] = []
        _walk(node, (), lines, twice, [0])
        values = yaml.load(text, Loader=_Loader)
        plain = _plain(values)
    except yaml.YAMLError as error:
        kind = "JSON" if name.endswith(".json") else "YAML"
        raise UnreadableError(f"{name} is not {kind}: {_where(error)}.") from None
    except _WRONG_TAG:
        raise UnreadableError(f"{name} cannot be read as YAML: a value is not what its tag says.") from None
    except (RecursionError, ValueError) as error:
        # Python's own sentence about a long number is about Python.
        reason = _LONG_NUMBER if "digits" in str(error) else _first_line(error)
        raise UnreadableError(f"{name} cannot be read as YAML: {reason}.") from None
    return Document(plain, lines, tuple(twice))


def _walk(
    node: yaml.Node, path: Path, lines: dict[Path, int], twice: list[tuple[str, int]], seen: list[int]
) -> None:
    seen[0] += 1
    if seen[0] > MAX_NODES or len(path) > MAX_DEPTH:
        raise ValueError("it is nested or repeated beyond what a configuration is")
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else "?"
            here = (*path, name)
            line = key.start_mark.line + 1
            if here in lines and name != "<<":
                twice.append((".".join(here), line))
            lines[here] = line
            _walk(value, here, lines, twice, seen)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            here = (*path, str(number))
            lines[here] = value.start_mark.line + 1
            _walk(value, here, lines, twice, seen)


def _plain(values: Any) -> Any:
    """Mappings with string keys only; what YAML made of a key (a number, a date) is named by its text."""
    if isinstance(values, dict):
        return {str(key): _plain(value) for key, value in values.items()}
    if isinstance(values, list):
        return [_plain(value) for value in values]
    if isinstance(values, int) and values.bit_length() > MAX_NUMBER_BITS:
        raise ValueError(_LONG_NUMBER)
    return values


def _where(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or _first_line(error)
    return f"{problem} (line {mark.line + 1})" if mark is not None else str(problem)


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def strip_json_comments(text: str) -> tuple[str, bool]:
    """JSON without `//` comment lines and tabs, which NVIDIA's templates have and YAML has not."""
    bare = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
    return bare.replace("\t", " "), bare != text


def whole_number(value: Any) -> int | None:
    """The value as LMCache's own int() would read it, or None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value == int(value) else None
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def json_object(text: str) -> dict[str, Any] | None:
    """The JSON object in a text, or None where it holds anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def truthy(value: Any) -> bool:
    """Whether the value is true as LMCache's own conversion reads it."""
    return value is True or (isinstance(value, (str, int)) and str(value).strip().lower() in ("true", "1"))


def backend_name(extra: Mapping[str, Any]) -> str | None:
    """NIXL's back end in an extra_config as text, whatever YAML made of it; None where none is given."""
    value = extra.get("nixl_backend")
    return None if value is None else str(value)


def flags_of(args: Sequence[str]) -> dict[str, str | None]:
    """Flags and the value after each, `--a=b` taken apart; a flag without a value maps to None."""
    out: dict[str, str | None] = {}
    for number, argument in enumerate(args):
        if not argument.startswith("--"):
            continue
        name, sign, value = argument.partition("=")
        following = args[number + 1] if number + 1 < len(args) else None
        out[name] = value if sign else (following if following and not following.startswith("--") else None)
    return out
