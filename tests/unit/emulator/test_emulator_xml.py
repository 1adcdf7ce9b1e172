"""The XML that is written, and keys in it."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.emulator.listing import encoder
from kvlab.emulator.xml import document


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain", "plain"),
        ("a&b", "a&amp;b"),
        ("<k>", "&lt;k&gt;"),
        ("]]>", "]]&gt;"),
        ("line\r", "line&#13;"),
        ("\x01", "&#x1;"),
        ("tab\tand\nline", "tab\tand\nline"),
    ],
)
def test_a_text_is_escaped_where_it_must_be(text: str, written: str) -> None:
    assert f"<K>{written}</K>".encode() in document("R", [("K", text)])


@given(st.text(st.characters(min_codepoint=0x20, exclude_categories=["Cs"]), max_size=50), st.integers())
def test_any_other_reader_gets_the_same_text(text: str, number: int) -> None:
    made = document("R", [("K", text), ("L", [("N", number)])], namespace=False)
    if "\ufffe" in text or "\uffff" in text:  # no characters of XML at all
        return
    root = ElementTree.fromstring(made)
    assert (root.findtext("K"), root.findtext("L/N")) == (text, str(number))


def test_encoding_type_url_leaves_nothing_that_xml_or_a_reader_could_change() -> None:
    encode = encoder({"encoding-type": "url"})
    assert encode("key/0_A-z.*~") == "key/0_A-z.*~"
    assert encode("a b") == "a%20b"
    assert encode("a b+c\x01\u00e4%") == "a%20b%2Bc%01%C3%A4%25"
    assert encoder({})("a b") == "a b"
