"""What the linter is told about a file's surroundings, and what it answers."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from kvlab.kvcache.geometry import Geometry
from kvlab.kvcache.knownkeys import LmcacheKeys
from kvlab.kvcache.versions import release

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. `line` counts from 1 and is 0 where the fault is that something is absent."""

    id: str
    severity: Severity
    key: str
    line: int
    reason: str
    remedy: str

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Context:
    """What is known beside the file itself. None means not known, and then what depends on it is not judged.

    `env` is the environment of the serving process, `file_mode` the file's permission bits, `addresses` those of
    the host that the file is for, `exposed` the secrets of the environment that stand where others may read them
    (variable to place).
    """

    lmcache: LmcacheKeys
    nixl: str = "1.5.1"
    vllm: str | None = None
    profile: str | None = None
    geometry: Geometry | None = None
    max_tokens: int | None = None
    tp: int = 1
    env: Mapping[str, str] | None = None
    file_mode: int | None = None
    addresses: frozenset[str] | None = None
    exposed: Mapping[str, str] = field(default_factory=dict)

    @property
    def lmcache_release(self) -> tuple[int, ...]:
        return release(self.lmcache.version)

    @property
    def needed_buffer(self) -> int | None:
        """Bytes that a rank's buffer must have for the longest request, where that can be computed."""
        if self.geometry is None or self.max_tokens is None:
            return None
        return self.geometry.buffer_bytes_per_rank(self.max_tokens)

    def strict(self) -> Severity:
        """Severity of what spoils a measurement but may be wanted elsewhere: an error once a profile is named."""
        return "warning" if self.profile is None else "error"


def absent(code: str, severity: Severity, key: str, reason: str, remedy: str) -> Finding:
    """A finding without a line: the key is missing, or stands in an argument list or an environment."""
    return Finding(code, severity, key, 0, reason, remedy)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that a misspelt one most likely means."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.75)
    return found[0] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question that names the nearest known word, or nothing."""
    near = nearest(word, known)
    return f" Did you mean {near}?" if near else ""
