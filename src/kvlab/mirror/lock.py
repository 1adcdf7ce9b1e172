"""Lock files: requirements pinned by version and hash, as `uv pip compile --generate-hashes` writes them."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from packaging.utils import canonicalize_name

from kvlab.errors import KvlabError

_PIN = re.compile(r"([A-Za-z0-9][\w.-]*)==(\S+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclasses.dataclass(frozen=True)
class Pin:
    """One package in one version.

    `hashes` are the sha256 of all its files, of any platform; none where any file is right.
    """

    name: str
    version: str
    hashes: frozenset[str] = frozenset()

    def requirement(self) -> str:
        """The pin as a line for pip."""
        return " ".join(
            [f"{self.name}=={self.version}", *(f"--hash=sha256:{one}" for one in sorted(self.hashes))]
        )


def read(file: Path) -> list[Pin]:
    """The pins of a lock file, in its order.

    Raises KvlabError when the file is not there, or a line is not a pin with its hashes.
    """
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise KvlabError(
            f"{file} cannot be read ({error}); make it by kvlab stack lock, or correct --stacks."
        ) from None
    pins = []
    for line in text.replace("\\\n", " ").splitlines():
        words = line.partition(" #")[0].strip()
        if not words or words.startswith("#"):
            continue
        pin, hashes = _PIN.match(words), frozenset(_HASH.findall(words))
        if pin is None or not hashes or _HASH.sub("", words[pin.end() :]).strip():
            raise KvlabError(
                f"{file}: {words[:60]!r} is not NAME==VERSION with its sha256; make the lock anew by kvlab stack lock."
            )
        pins.append(Pin(canonicalize_name(pin[1]), pin[2], hashes))
    if not pins:
        raise KvlabError(f"{file} pins nothing; make the lock anew by kvlab stack lock.")
    return pins
