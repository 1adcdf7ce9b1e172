"""Documents of the management API on the wire: XML unless JSON is asked for, as on the array."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree import ElementTree

from kvlab.emulator.management.errors import ApiError
from kvlab.emulator.xml import Node, document

_UNSPEAKABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""What XML cannot say: it is refused on its way in, for every reply may be XML."""
MAX_BODY = 1 << 20  # bytes; a bucket policy is the longest body there is


def wants_json(accept: str) -> bool:
    """Whether an Accept header asks for JSON; the array's own choice is XML."""
    return "json" in accept.lower()


def encode(root: str, content: Mapping[str, Any], *, as_json: bool) -> bytes:
    """The reply's bytes; nothing for an empty document."""
    if as_json:
        return json.dumps(content).encode()
    return document(root, _nodes(content), namespace=False)


def _nodes(content: Mapping[str, Any]) -> Iterator[Node]:
    """A list is its element once for each item, as the array's XML has it."""
    for name, value in content.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Mapping):
                yield name, _nodes(item)
            elif isinstance(item, bool):
                yield name, str(item).lower()
            else:
                yield name, str(item)


def decode(body: bytes, content_type: str) -> dict[str, Any]:
    """A request's body; {} for none. ApiError 1013 when it is not what its Content-Type says."""
    if not body.strip():
        return {}
    try:
        # In another encoding than UTF-8 a document type would pass unseen.
        text = body.decode()
        if "xml" in content_type.lower():
            if "<!DOCTYPE" in text or "<!ENTITY" in text or "\0" in text:
                raise ValueError("a document type is not allowed")
            found = _content(ElementTree.fromstring(body))
        else:
            found = json.loads(text)
    except (ValueError, ElementTree.ParseError, LookupError, RecursionError):
        raise ApiError(1013, "The request's body cannot be parsed") from None
    if not isinstance(found, dict):
        raise ApiError(1013, "The request's body is no object")
    if not speakable(found):
        raise ApiError(1013, "The request's body holds characters that XML has not")
    return found


def speakable(value: Any) -> bool:
    """Whether every text in the value can be written as XML."""
    if isinstance(value, str):
        return not _UNSPEAKABLE.search(value)
    if isinstance(value, Mapping):
        return all(speakable(part) for pair in value.items() for part in pair)
    return all(speakable(part) for part in value) if isinstance(value, list) else True


def _content(element: ElementTree.Element) -> Any:
    if not len(element):
        return (element.text or "").strip()
    content: dict[str, Any] = {}
    for child in element:
        name, value = child.tag.rpartition("}")[2], _content(child)
        if name not in content:
            content[name] = value
        elif isinstance(content[name], list):
            content[name].append(value)
        else:
            content[name] = [content[name], value]
    return content
