"""What a TTFT run measures, and the limits its claims must keep: one YAML file under thresholds/.

Contexts are prompt lengths in tokens. Unknown keys are errors: a limit that is misspelt must not be a limit that holds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml

from kvlab.errors import KvlabError
from kvlab.ttft.result import Count, Duration, Positive, Text

ProfileName = Literal["baseline", "s3-http", "s3-rdma", "file"]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
MAX_REQUESTS = 1_000_000


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The claims as limits; one that is not given is not judged."""

    speedup_longest_min: Duration | None = None  # baseline over s3-rdma, hot, at the longest context
    crossover_exists: bool | None = None  # a context from which on s3-rdma beats baseline
    http_over_rdma_longest_min: Duration | None = None  # s3-http over s3-rdma, hot, at the longest context
    # 1 - CPU of s3-rdma over that of s3-http, for the same payload
    client_cpu_saving_min: Share | None = None


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run as it was asked for."""

    name: Text
    model: Text  # served name, its last part, or the directory's name
    contexts: list[Positive]
    profiles: list[ProfileName]
    where_configured: list[ProfileName] = []  # measured too in a lab that has them
    starts: Positive = 3
    hot_passes: Positive = 5
    hot_passes_of: dict[
        ProfileName, Positive
    ] = {}  # in place of hot_passes, for a profile whose passes take long
    # Requests at once; each level is a series of its own.
    concurrency: list[Positive] = msgspec.field(default_factory=lambda: [1])
    tp: Positive | None = None  # tensor parallelism that the lab must have
    max_tokens: Positive = 16
    seed: Count = 20261201
    warmup_tokens: Positive = 64
    silence_s: Duration = 300.0  # a request that is silent for so long is lost
    store_s: Duration = 120.0  # a cold pass's objects must be in the store by then
    limits: Limits = Limits()

    def tokens(self) -> int:
        """The longest prompt with its answer: what the model's length must hold."""
        return max(*self.contexts, self.warmup_tokens) + self.max_tokens

    def hot(self, profile: str) -> int:
        """Hot passes of a profile, for each context of a start."""
        return {str(name): passes for name, passes in self.hot_passes_of.items()}.get(
            profile, self.hot_passes
        )

    def as_mapping(self) -> dict[str, Any]:
        """The plan as plain values, for the result file."""
        return dict(msgspec.to_builtins(self))


def read(path: Path) -> Plan:
    """The plan in a file. Raises KvlabError: no file, no YAML, an unknown key, or a value that cannot be."""
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise KvlabError(
            f"the plan {path} cannot be read ({error.strerror}); name one of thresholds/."
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise KvlabError(f"the plan {path} is not YAML: {' '.join(str(error).split())}.") from None
    return from_mapping(found, str(path))


def from_mapping(values: object, name: str) -> Plan:
    """The plan in plain values; KvlabError as `read`, with `name` for the file."""
    try:
        plan = msgspec.convert(values, Plan)
    except msgspec.ValidationError as error:
        raise KvlabError(f"the plan {name} is not as kvlab reads it: {error}.") from None
    if problem := _problem(plan):
        raise KvlabError(f"the plan {name} {problem}.")
    return plan


def _problem(plan: Plan) -> str:
    """What a plan asks that cannot be measured, or nothing."""
    measured = [*plan.profiles, *plan.where_configured]
    for what, listed in (
        ("contexts", plan.contexts),
        ("profiles", measured),
        ("concurrency", plan.concurrency),
    ):
        if not listed:
            return f"lists no {what}; give at least one"
        if len(set(listed)) != len(listed):
            return f"lists one of {what} twice ({', '.join(map(str, listed))})"
    strangers = sorted(set(plan.hot_passes_of).difference(measured))
    if strangers:
        return f"has hot_passes_of {strangers[0]}, which it does not measure"
    passes = sum(plan.hot(profile) + 1 for profile in measured)
    requests = plan.starts * passes * len(plan.contexts) * sum(plan.concurrency)
    if requests > MAX_REQUESTS:
        return f"asks for {requests} requests, more than {MAX_REQUESTS}; measure fewer starts or passes"
    if plan.limits.crossover_exists is False:
        return "says crossover_exists: false; leave the limit out where no crossover is asked for"
    needs = {
        "speedup_longest_min": {"baseline", "s3-rdma"},
        "crossover_exists": {"baseline", "s3-rdma"},
        "http_over_rdma_longest_min": {"s3-http", "s3-rdma"},
        "client_cpu_saving_min": {"s3-http", "s3-rdma"},
    }
    for limit, profiles in needs.items():
        missing = sorted(profiles.difference(plan.profiles))
        if getattr(plan.limits, limit) is not None and missing:
            return f"has the limit {limit} but does not measure {missing[0]}"
    return ""
