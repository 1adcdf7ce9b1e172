"""The result of one TTFT run: one JSON file, written anew after each pass, so that nothing measured is lost.

Times are seconds of a monotonic clock, sizes bytes. What was not measured is None (or absent), never zero.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from kvlab.errors import KvlabError
from kvlab.whole_file import aside

SCHEMA = 1
KIND = "kvlab-ttft"
ABOUT = "about."
"""Keys of the environment that begin so describe a run (host, load) and are never compared."""
NIC_GB_S = "hardware.nic_gb_s"
"""Key of the environment: what the RDMA NICs carry together, 1e9 bytes a second; absent without one."""

Decoded = TypeVar("Decoded")
Scalar = str | int | float | bool | None
Series = Literal["cold", "hot", "warmup"]
Way = Literal["rdma", "http", "file", "none", "unknown"]
"""The path the payload took. `none`: nothing was loaded (baseline, cold). `unknown`: no evidence."""
Text = Annotated[str, msgspec.Meta(min_length=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Duration = Annotated[float, msgspec.Meta(gt=0)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]


class Stages(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Seconds of the TTFT by stage; a stage that the services do not count is None.

    `store`, of a cold pass, comes after the answer in MP mode: it is in no TTFT.
    """

    lookup: Seconds | None = None
    retrieve: Seconds | None = None
    copy: Seconds | None = None
    prefill: Seconds | None = None
    store: Seconds | None = None


class Start(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One start of a profile's services.

    `index` counts the starts of this profile from 0; one that was interrupted shares its index with the start that
    measured the rest.
    """

    number: Count  # over all profiles, in order of time
    profile: Text
    index: Count
    at: Text  # ISO 8601, UTC
    service: dict[str, Scalar] = msgspec.field(default_factory=dict)  # versions, process ids
    error: str = ""


class Pass(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One request. `reasons` say why it is not `proven`; an unproven pass enters no statistic."""

    start: Count  # Start.number
    profile: Text
    context: Positive  # tokens asked for
    series: Series
    index: Count  # within start, context, series and concurrency
    proven: bool
    concurrency: Positive = 1
    request: Count = 0  # 0..concurrency-1
    ttft_first_chunk_s: Duration | None = None  # first SSE chunk, as vLLM's benchmark takes it
    ttft_first_token_s: Duration | None = None  # first non-empty text
    total_s: Duration | None = None
    finish_reason: str = ""
    output_sha256: str = ""
    prompt_tokens: Count | None = None
    hit_tokens: Count | None = None
    expected_hit_tokens: Count | None = None
    tier: str = ""
    path: Way = "unknown"
    rdma_bytes: Count | None = None
    http_bytes: Count | None = None
    client_cpu_s: Seconds | None = None  # of vLLM and LMCache, during the pass
    counters: dict[str, float] = msgspec.field(default_factory=dict)
    stages: Stages = msgspec.field(default_factory=Stages)
    reasons: list[str] = msgspec.field(default_factory=list)
    at_s: Seconds = 0.0  # since the run began


class Result(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A run. `fingerprint` is that of `environment`; `stopped` says why a run is not `complete`."""

    schema: int = SCHEMA
    kind: str = KIND
    id: Text
    created: Text  # ISO 8601, UTC
    simulated: bool
    simulated_parts: list[str] = msgspec.field(default_factory=list)
    commit: str = ""
    stack: str = ""
    environment: dict[str, Scalar] = msgspec.field(default_factory=dict)
    fingerprint: str = ""
    plan: dict[str, Any] = msgspec.field(default_factory=dict)
    starts: list[Start] = msgspec.field(default_factory=list)
    passes: list[Pass] = msgspec.field(default_factory=list)
    complete: bool = False
    stopped: str = ""

    def __post_init__(self) -> None:
        self.fingerprint = self.fingerprint or fingerprint(self.environment)


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What of a result says whether it is wanted: a history is read by its headers, in a fraction of the time."""

    id: Text
    created: Text
    simulated: bool
    commit: str = ""
    stack: str = ""
    environment: dict[str, Scalar] = msgspec.field(default_factory=dict)
    fingerprint: str = ""
    plan: dict[str, Any] = msgspec.field(default_factory=dict)
    complete: bool = False
    stopped: str = ""

    @property
    def model(self) -> str:
        """The model that was measured; empty when the run does not say."""
        return str(self.plan.get("model") or self.environment.get("workload.model") or "")


class _Kind(msgspec.Struct):
    kind: Any = None
    schema: Any = None


_READERS, _PART = 8, 50
_HEAD_BYTES = 16 * 1024
_TAIL_BYTES = 1024
_STARTS, _END = b',"starts":[', b'],"complete":'
"""What follows the header, and what ends the passes. In a text of a JSON file the quotes would be escaped."""
_kind = msgspec.json.Decoder(_Kind)
_header = msgspec.json.Decoder(Header)
_result = msgspec.json.Decoder(Result)
_encoder = msgspec.json.Encoder()


def comparable(environment: dict[str, Scalar], across: Collection[str] = ()) -> dict[str, Scalar]:
    """The part of an environment that two runs must share to be compared.

    `across` names what was changed on purpose: a key, or the first word of dotted keys (`versions`).
    """
    return {
        key: value
        for key, value in sorted(environment.items())
        if not key.startswith(ABOUT) and key not in across and key.split(".")[0] not in across
    }


def fingerprint(environment: dict[str, Scalar], across: Collection[str] = ()) -> str:
    """SHA-256, in hex, of the comparable part of an environment."""
    return hashlib.sha256(_encoder.encode(comparable(environment, across))).hexdigest()


def encode(result: Result) -> bytes:
    """The result as JSON, one line."""
    return _encoder.encode(result) + b"\n"


def decode(content: bytes, name: str) -> Result:
    """A result from the content of the file `name`.

    Raises KvlabError when it is cut short, of another kind, of a newer schema, or contradicts itself.
    """
    result = _decode(content, name, _result)
    contradiction = _contradiction(result)
    if contradiction:
        raise KvlabError(f"{name} contradicts itself: {contradiction}; it was changed by hand or damaged.")
    return result


def _decode(content: bytes, name: str, decoder: msgspec.json.Decoder[Decoded]) -> Decoded:
    try:
        about = _kind.decode(content)
        if about.kind != KIND:
            raise KvlabError(f"{name} is no TTFT result; give a file that kvlab ttft run or import wrote.")
        if isinstance(about.schema, int) and about.schema > SCHEMA:
            raise KvlabError(
                f"{name} has schema {about.schema}, and this kvlab reads up to {SCHEMA}; update kvlab."
            )
        return decoder.decode(content)
    except msgspec.ValidationError as error:
        raise KvlabError(f"{name} is no TTFT result as kvlab writes it: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if not content.strip() or "truncated" in str(error):
            raise KvlabError(f"{name} is cut short; take a copy of it, or repeat the run.") from None
        raise KvlabError(f"{name} is not JSON: {error}; give a file that kvlab ttft wrote.") from None


def read(path: Path) -> Result:
    """The result in a file; KvlabError as `decode`, or when it cannot be read."""
    return decode(_content(path), str(path))


def header(path: Path) -> Header:
    """The header of the result in a file; KvlabError as `read`, but that its passes are not looked at.

    A file as `encode` writes it begins with its header; of any other, the whole is decoded.
    """
    try:
        file = os.open(path, os.O_RDONLY)
        try:
            begin = os.pread(file, _HEAD_BYTES, 0)
            end = os.pread(file, _TAIL_BYTES, max(os.fstat(file).st_size - _TAIL_BYTES, 0))
        finally:
            os.close(file)
    except OSError as error:
        raise KvlabError(f"{path} cannot be read: {error.strerror}.") from None
    head, starts, _ = begin.partition(_STARTS)
    _, passes, tail = end.rpartition(_END)
    whole = starts and passes and tail.endswith(b"}\n")
    return _decode(head + b',"complete":' + tail if whole else _content(path), str(path), _header)


def headers(files: Sequence[Path]) -> list[Header]:
    """The headers of many results, in order; KvlabError as `header`. A disk answers several readers sooner than one."""
    parts = [files[at : at + _PART] for at in range(0, len(files), _PART)]
    with ThreadPoolExecutor(_READERS) as readers:
        return [one for part in readers.map(lambda part: [*map(header, part)], parts) for one in part]


def files_in(folder: Path) -> list[Path]:
    """The result files of a folder, by name; none where there is no folder."""
    try:
        return [folder / name for name in sorted(os.listdir(folder)) if name.endswith(".json")]  # noqa: PTH208
    except FileNotFoundError:
        return []


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise KvlabError(f"{path} cannot be read: {error.strerror}.") from None


def write(result: Result, path: Path) -> None:
    """Write the file at once or not at all: a reader sees the old content or the new.

    Raises KvlabError when the folder cannot be written or the disk is full.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KvlabError(f"{path} cannot be written ({error.strerror}); correct the path") from None
    with aside(path, encode(result), 0o644, fsync=True) as written:
        written.replace(path)


def _contradiction(result: Result) -> str:
    """What in a result cannot be, or nothing."""
    if result.fingerprint != fingerprint(result.environment):
        return "its fingerprint is not that of its environment"
    profiles = {start.number: start.profile for start in result.starts}
    if len(profiles) != len(result.starts):
        return "two starts have the same number"
    for one in result.passes:
        if profiles.get(one.start) != one.profile:
            return f"a pass of {one.profile} names start {one.start}, which is none of that profile"
    seen = Counter(
        (p.start, p.context, p.series, p.concurrency, p.index, p.request) for p in result.passes
    ).most_common(1)
    if seen and seen[0][1] > 1:
        start, context, series, _, index, _ = seen[0][0]
        return f"{series} pass {index} of {context} tokens in start {start} is there twice"
    return ""
