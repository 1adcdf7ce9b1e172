"""The XML of S3: written from nested tuples, read by the standard parser with its dangers shut off."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from kvlab.emulator.errors import S3Error

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
MAX_DOCUMENT = 2 << 20  # 1,000 keys of 1,024 bytes and their elements; S3's own limit for DeleteObjects

Node: TypeAlias = "tuple[str, str | int | Iterable[Node]]"

# XML 1.0 has no way to say these, not even escaped; keys with them need encoding-type=url.
_FORBIDDEN = {n: f"&#x{n:x};" for n in range(0x20) if n not in (0x09, 0x0A, 0x0D)} | {0x0D: "&#13;"}
_SPECIAL = re.compile(r"[&<>\x00-\x1f]")  # most texts have none


def document(root: str, children: Iterable[Node], *, namespace: bool = True) -> bytes:
    """A whole document in UTF-8. A child is (name, text) or (name, children)."""
    out = ['<?xml version="1.0" encoding="UTF-8"?>\n<', root, f' xmlns="{NAMESPACE}">' if namespace else ">"]
    _write(out, children)
    out += ["</", root, ">"]
    return "".join(out).encode()


def _write(out: list[str], nodes: Iterable[Node]) -> None:
    for name, content in nodes:
        if isinstance(content, str):
            if _SPECIAL.search(content):
                content = escape(content).translate(_FORBIDDEN)
            out.append(f"<{name}>{content}</{name}>")
        elif isinstance(content, int):
            out.append(f"<{name}>{content}</{name}>")
        else:
            out.append(f"<{name}>")
            _write(out, content)
            out.append(f"</{name}>")


def parse(body: bytes, root: str) -> ElementTree.Element:
    """The root element of a request document, namespaces removed; MalformedXML when it is none."""
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        raise malformed()
    try:
        element = ElementTree.fromstring(body)
    except (ElementTree.ParseError, ValueError, LookupError):
        raise malformed() from None
    for node in element.iter():
        if isinstance(node.tag, str):
            node.tag = node.tag.rpartition("}")[2]
    if element.tag != root:
        raise malformed()
    return element


def text(element: ElementTree.Element, name: str, default: str | None = None) -> str:
    """Text of the one child of that name; MalformedXML when missing (without a default) or repeated."""
    found = element.findall(name)
    if not found and default is not None:
        return default
    if len(found) != 1:
        raise malformed()
    return found[0].text or ""


def malformed() -> S3Error:
    return S3Error(
        "MalformedXML",
        "The XML you provided was not well-formed or did not validate against our published schema.",
    )
