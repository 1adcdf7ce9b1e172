"""Buckets as the management API makes and changes them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvlab.errors import KvlabError
from kvlab.objectscale import namemap, quota, tags
from kvlab.objectscale.errors import BusyError
from kvlab.objectscale.management import Management
from kvlab.objectscale.plan import Call, Document, Plan, quoted


@dataclass(frozen=True)
class Bucket:
    """A wanted bucket. `settings` holds options of namemap.BUCKET, only those that are asked for."""

    name: str
    namespace: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] | None = None
    locked: bool | None = None

    def __post_init__(self) -> None:
        check_name(self.name)

    @property
    def path(self) -> str:
        return f"/object/bucket/{quoted(self.name)}"

    @property
    def about(self) -> str:
        return f"bucket {self.name} of namespace {self.namespace}"


def check_name(name: str) -> None:
    """Refuse, before anything is sent, what ObjectScale refuses (facts/objectscale.md 4)."""
    shaped = re.fullmatch(r"[A-Za-z0-9_-]([A-Za-z0-9._-]{0,253}[A-Za-z0-9_-])?", name)
    if not shaped or ".." in name or _is_ipv4(name):
        raise KvlabError(
            f"{name!r} is no bucket name: 1 to 255 of letters, digits, '.', '_' and '-', no '.' at an end or two in a "
            "row, not an IPv4 address; choose another"
        )


def find(api: Management, bucket: Bucket) -> Document | None:
    """The bucket's info, None for none. Code 1013 on this GET means absence too (facts/objectscale.md 1.2)."""
    return api.find(f"{bucket.path}/info", bucket.about, {"namespace": bucket.namespace}, absent=(1013,))


def plan(bucket: Bucket, found: Document | None) -> Plan:
    """Make the bucket, or change what differs; refuses a difference in what is fixed at creation."""
    after = dict(bucket.settings)
    after |= {"tags": dict(bucket.tags)} if bucket.tags is not None else {}
    after |= {"locked": bucket.locked} if bucket.locked is not None else {}
    if found is None:
        return Plan(_creation(bucket), {"state": "absent"}, {"state": "present"} | after)
    if is_emptying(found):
        raise BusyError(f"{bucket.about} is being emptied and removed; wait for that, then run again")
    have = namemap.current(namemap.BUCKET, found)
    have |= {
        "tags": tags.of(found.get("TagSet"), "Key", "Value"),
        "locked": namemap.is_true(found.get("locked")),
    }
    namemap.refuse_fixed(namemap.BUCKET, bucket.settings, have, bucket.about)
    before = {"state": "present"} | {option: have[option] for option in after}
    return Plan(_changes(bucket, found, have), before, {"state": "present"} | after)


def is_emptying(found: Document) -> bool:
    return namemap.is_true(found.get("is_empty_bucket_in_progress"))


def _is_ipv4(name: str) -> bool:
    try:
        ipaddress.IPv4Address(name)
    except ValueError:
        return False
    return True


def _creation(bucket: Bucket) -> tuple[Call, ...]:
    given = {option: value for option, value in bucket.settings.items() if value != -1}
    body = {"name": bucket.name, "namespace": bucket.namespace, **namemap.body(namemap.BUCKET, given)}
    if bucket.tags:
        body["TagSet"] = tags.pairs(bucket.tags, "Key", "Value")
    made = Call("POST", "/object/bucket", bucket.about, body)
    return (made, _lock(bucket)) if bucket.locked else (made,)


def _changes(bucket: Bucket, found: Document, have: Mapping[str, Any]) -> tuple[Call, ...]:
    differing = namemap.differing(namemap.BUCKET, bucket.settings, have)
    values = {**quota.counts(found), **have, **bucket.settings}
    # A dict, for two fields may be changed by one call.
    calls = [
        _CHANGES[change](bucket, values) for change in dict.fromkeys(f.change for f in differing) if change
    ]
    if bucket.tags is not None:
        calls += tags.calls(have["tags"], bucket.tags, lambda method, some: _tag(bucket, method, some))
    if bucket.locked is not None and bucket.locked != have["locked"]:
        calls.append(_lock(bucket))
    return tuple(calls)


def _call(bucket: Bucket, method: str, part: str, body: Mapping[str, Any]) -> Call:
    return Call(method, f"{bucket.path}/{part}", bucket.about, {**body, "namespace": bucket.namespace})


def _tag(bucket: Bucket, method: str, some: Mapping[str, str]) -> Call:
    return _call(bucket, method, "tags", {"TagSet": tags.pairs(some, "Key", "Value")})


def _lock(bucket: Bucket) -> Call:
    return _call(bucket, "PUT", f"lock/{str(bucket.locked).lower()}", {})


def _owner(bucket: Bucket, values: Mapping[str, Any]) -> Call:
    return _call(bucket, "POST", "owner", {"new_owner": values["owner"], "reset_previous_owners": True})


def _quota(bucket: Bucket, values: Mapping[str, Any]) -> Call:
    return quota.call(bucket.path, bucket.about, values, bucket.namespace)


def _retention(bucket: Bucket, values: Mapping[str, Any]) -> Call:
    return _call(bucket, "PUT", "retention", {"period": values["retention"]})


def _autocommit(bucket: Bucket, values: Mapping[str, Any]) -> Call:
    return _call(bucket, "PUT", "autocommit", {"autocommit": str(values["autocommit_period"])})


def _outage(bucket: Bucket, values: Mapping[str, Any]) -> Call:
    flags = {
        "is_stale_allowed": str(values["available_in_outage"]).lower(),
        "is_tso_read_only": values["read_only_in_outage"],
    }
    return _call(bucket, "POST", "isstaleallowed", flags)


def _versioning(bucket: Bucket, values: Mapping[str, Any]) -> Call:
    status = {"Status": values["versioning"].title()}
    return Call("PUT", f"{bucket.path}/versioning", bucket.about, status, {"namespace": bucket.namespace})


_CHANGES: dict[str, Callable[[Bucket, Mapping[str, Any]], Call]] = {
    "owner": _owner,
    "quota": _quota,
    "retention": _retention,
    "autocommit": _autocommit,
    "outage": _outage,
    "versioning": _versioning,
}
