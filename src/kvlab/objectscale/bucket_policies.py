"""Bucket policies: JSON in AWS's form, compared by meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvlab.objectscale.buckets import Bucket
from kvlab.objectscale.management import Management
from kvlab.objectscale.plan import Call, Document, Plan

_LISTS = ("Action", "NotAction", "Resource", "NotResource")
_PRINCIPALS = ("Principal", "NotPrincipal")


def find(api: Management, bucket: Bucket) -> Document | None:
    """The bucket's policy, None for none."""
    return api.find(f"{bucket.path}/policy", _about(bucket), {"namespace": bucket.namespace}) or None


def plan(bucket: Bucket, wanted: Mapping[str, Any] | None, found: Document | None) -> Plan:
    """Put the wanted policy in place; None removes it."""
    before: Document = {"policy": found}
    after: Document = {"policy": wanted}
    path, query = f"{bucket.path}/policy", {"namespace": bucket.namespace}
    if wanted is None:
        calls = (Call("DELETE", path, _about(bucket), query=query),) if found else ()
    elif found is not None and normal(found) == normal(wanted):
        calls, before = (), after
    else:
        calls = (Call("PUT", path, _about(bucket), wanted, query),)
    return Plan(calls, before, after)


def normal(policy: Mapping[str, Any]) -> Document:
    """One form for policies of one meaning: a single value is a list of one, lists have no order."""
    statements = policy.get("Statement", [])
    if isinstance(statements, Mapping):
        statements = [statements]
    return {**policy, "Statement": [_normal_statement(statement) for statement in statements]}


def _normal_statement(statement: Mapping[str, Any]) -> Document:
    made = dict(statement)
    for name in _LISTS:
        if name in made:
            made[name] = _as_list(made[name])
    for name in _PRINCIPALS:
        if isinstance(made.get(name), Mapping):
            made[name] = {kind: _as_list(who) for kind, who in made[name].items()}
    return made


def _as_list(value: Any) -> list[str]:
    return sorted([value] if isinstance(value, str) else value)


def _about(bucket: Bucket) -> str:
    return f"policy of {bucket.about}"
