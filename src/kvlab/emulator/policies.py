"""Policies in AWS's form, of buckets and of IAM users: is an action allowed, denied, or not spoken of?"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, Literal

Verdict = Literal["allow", "deny", "silent"]
_ARN = ("arn:aws:s3:::", "urn:ecs:s3:::")


def check(policy: Mapping[str, Any], *, principal: bool) -> None:
    """ValueError with the reason when it is no policy, or has what is not evaluated here (Condition, Not…)."""
    statements = _listed(policy.get("Statement"))
    if not statements:
        raise ValueError("it has no Statement")
    for statement in statements:
        if not isinstance(statement, Mapping):
            raise ValueError("a Statement is no object")
        if statement.get("Effect") not in ("Allow", "Deny"):
            raise ValueError("Effect must be Allow or Deny")
        for name in ("Action", "Resource", *(("Principal",) if principal else ())):
            value = statement.get(name)
            if not value:
                raise ValueError(f"a Statement has no {name}")
            parts = list(value.values()) if name == "Principal" and isinstance(value, Mapping) else [value]
            if not all(isinstance(text, str) for part in parts for text in _listed(part)):
                raise ValueError(f"{name} must be text, or a list of texts")
        known = {"Sid", "Effect", "Action", "Resource", *(("Principal",) if principal else ())}
        other = sorted(set(statement) - known)
        if other:
            raise ValueError(f"{', '.join(other)} is not supported by the emulated array")


def judge(
    policy: Mapping[str, Any], *, action: str, resource: str, principals: frozenset[str] | None
) -> Verdict:
    """What the policy says. `resource` is `bucket` or `bucket/key`; `principals` None for a user's own policy.

    A Deny anywhere wins over an Allow.
    """
    said: Verdict = "silent"
    for statement in _listed(policy.get("Statement")):
        if principals is not None and not _names(statement.get("Principal"), principals):
            continue
        actions = [str(a).lower() for a in _listed(statement["Action"])]
        if not any(_fits(a, action.lower()) for a in actions):
            continue
        if not any(_fits(_plain(r), resource) for r in _listed(statement["Resource"])):
            continue
        if statement["Effect"] == "Deny":
            return "deny"
        said = "allow"
    return said


def _fits(pattern: str, text: str) -> bool:
    """Whether a pattern of AWS's fits: `*` is anything, `?` one character, and nothing else is special."""
    return _pattern(pattern).fullmatch(text) is not None


@functools.lru_cache(maxsize=1024)
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), re.DOTALL)


def _names(principal: Any, who: frozenset[str]) -> bool:
    """Whether a Principal is one of those: "*", a list of names, or {"AWS": …}."""
    if isinstance(principal, Mapping):
        principal = [name for names in principal.values() for name in _listed(names)]
    return any(name == "*" or name in who for name in _listed(principal))


def _plain(resource: Any) -> str:
    text = str(resource)
    for prefix in _ARN:
        text = text.removeprefix(prefix)
    return text


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
