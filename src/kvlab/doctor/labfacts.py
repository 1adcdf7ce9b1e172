"""The facts of a lab in one document, and the file it is kept in.

    {"kind": "kvlab-facts", "schema": 1, "lab": name, "simulated": bool, "taken": "2026-12-02T20:30:00+00:00",
     "applies": {host: [topic, ...]}, "hosts": {host: {topic: {...}}}, "problems": [{"host", "topic", "reason"}]}

`applies` names the topics that a host of this lab must have facts about: one that is missing is inconclusive. Facts
about the lab as a whole, such as its object store's, stand under the host `lab`. `problems` says what could not be
looked at.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvlab.errors import KvlabError

KIND, SCHEMA = "kvlab-facts", 1
LAB = "lab"
"""The name under which facts about the whole lab stand."""

MAX_BYTES = 1 << 30


@dataclass(frozen=True)
class Problem:
    """Something that could not be looked at: a host (topic "") or one topic of it."""

    host: str
    topic: str
    reason: str

    def __str__(self) -> str:
        return f"{self.host}{f' ({self.topic})' if self.topic else ''}: {self.reason}"


@dataclass(frozen=True)
class LabFacts:
    """A lab as it was found at one moment."""

    lab: str
    simulated: bool
    taken: str
    hosts: Mapping[str, Mapping[str, Any]]
    applies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The document."""
        return {
            "kind": KIND,
            "schema": SCHEMA,
            "lab": self.lab,
            "simulated": self.simulated,
            "taken": self.taken,
            "applies": {host: list(topics) for host, topics in self.applies.items()},
            "hosts": self.hosts,
            "problems": [dataclasses.asdict(problem) for problem in self.problems],
        }


def read(path: Path) -> LabFacts:
    """The facts of a file.

    What cannot be used is named in `problems`, and the rest is kept: a host of another schema, a topic that is no
    mapping. A whole file of another schema, a truncated one and one that is no facts file give no host at all.

    Raises:
        KvlabError: there is no such file, or it cannot be read.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise KvlabError(f"{path} has more than {MAX_BYTES >> 30} GiB; that is no facts file.")
        data = path.read_bytes()
    except OSError as error:
        raise KvlabError(
            f"{path} cannot be read ({error.strerror}); record facts with kvlab facts collect."
        ) from None
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        return _nothing(path, f"the file is truncated or no JSON ({error}); record the facts again")
    if not isinstance(document, dict) or document.get("kind") != KIND:
        return _nothing(path, f"this is no facts file: its kind is not {KIND!r}")
    if document.get("schema") != SCHEMA:
        reason = (
            f"its schema is {document.get('schema')!r}, this kvlab reads {SCHEMA}; record the facts again"
        )
        return _nothing(path, reason)
    return _parse(document)


def write(facts: LabFacts, path: Path) -> None:
    """Write the document whole or not at all, readable by its owner only: facts name hosts and addresses.

    Raises:
        KvlabError: the folder cannot be written.
    """
    try:
        handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w") as stream:
            json.dump(facts.as_json(), stream, indent=1, sort_keys=True)
            stream.write("\n")
        Path(scratch).replace(path)
    except OSError as error:
        raise KvlabError(f"{path} cannot be written: {error.strerror}.") from error


def _nothing(path: Path, reason: str) -> LabFacts:
    return LabFacts(path.name, False, "", {}, {}, (Problem(path.name, "", reason),))


def _parse(document: Mapping[str, Any]) -> LabFacts:
    problems: list[Problem] = []
    hosts: dict[str, dict[str, Any]] = {}
    for host, topics in _mapping(document.get("hosts")).items():
        if not isinstance(topics, dict):
            problems.append(Problem(host, "", "its facts are no mapping of topics"))
            continue
        hosts[host] = {}
        for topic, facts in topics.items():
            reason = _unusable(facts)
            if reason:
                problems.append(Problem(host, topic, reason))
            else:
                hosts[host][topic] = facts
    if not hosts and not document.get("problems"):
        problems.append(Problem(str(document.get("lab")), "", "the file holds no host's facts"))
    for one in document.get("problems") or ():
        known = _mapping(one)
        problems.append(
            Problem(str(known.get("host")), str(known.get("topic") or ""), str(known.get("reason")))
        )
    applies = {
        host: tuple(map(str, topics))
        for host, topics in _mapping(document.get("applies")).items()
        if isinstance(topics, list)
    }
    return LabFacts(
        str(document.get("lab")),
        bool(document.get("simulated")),
        str(document.get("taken")),
        hosts,
        applies,
        tuple(problems),
    )


def _unusable(facts: Any) -> str:
    """Why a topic's facts cannot be judged, or nothing."""
    from kvlab.probes import SCHEMA as TOPIC_SCHEMA

    if not isinstance(facts, dict):
        return "its facts are no mapping"
    if facts.get("schema", TOPIC_SCHEMA) != TOPIC_SCHEMA:
        return f"its probe wrote schema {facts['schema']!r}, this kvlab reads {TOPIC_SCHEMA}"
    return ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
