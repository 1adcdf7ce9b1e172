"""Release numbers as tuples that compare."""

from __future__ import annotations

import re

from kvlab.errors import KvlabError


def release(version: str) -> tuple[int, ...]:
    """The release part of a version: "0.5.6" and "0.5.6+cu13" are (0, 5, 6).

    Raises:
        KvlabError: the text does not begin with a release number.
    """
    match = re.match(r"v?(\d+(?:\.\d+)*)", version, re.ASCII)
    if match is None or len(version) > 64:
        shown = version if len(version) <= 64 else version[:60] + "..."
        raise KvlabError(f"{shown!r} is not a version number.")
    return tuple(int(part) for part in match[1].split("."))
