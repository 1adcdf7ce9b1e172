"""Bucket lifecycle, expiration only: ObjectScale has no transitions. Rules are JSON beside the bucket."""

from __future__ import annotations

import datetime
import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from xml.etree.ElementTree import Element

from kvlab.emulator.call import Call, Reply
from kvlab.emulator.errors import S3Error
from kvlab.emulator.index import Entry
from kvlab.emulator.objects import require_md5
from kvlab.emulator.retention import retained_until
from kvlab.emulator.service import Service
from kvlab.emulator.xml import Node, document, malformed, parse, text

MAX_RULES = 1000
SWEEP_S = 60.0  # how often expired objects are looked for
_DAY_S = 86400
_DATE = re.compile(r"\d{4}-\d\d-\d\d(T00:00:00(\.0+)?(Z|\+00:00)?)?")


@dataclass(frozen=True)
class Rule:
    """Expire what starts with `prefix`, `days` after it was written or on `date` (YYYY-MM-DD, UTC)."""

    id: str
    prefix: str
    enabled: bool
    days: int | None = None
    date: str | None = None
    filter: bool = True  # the prefix was given in a Filter element, not directly

    def expires(self, entry: Entry) -> float | None:
        """Unix time from which the object counts as expired; None when the rule does not touch it."""
        if not self.enabled or not entry.key.startswith(self.prefix):
            return None
        if self.date:
            return datetime.datetime.fromisoformat(self.date).replace(tzinfo=datetime.UTC).timestamp()
        assert self.days is not None
        # S3 counts whole days and rounds up to the next midnight UTC.
        return (int(entry.modified) // _DAY_S + 1 + self.days) * _DAY_S


def parse_rules(body: bytes) -> list[Rule]:
    """The rules of a LifecycleConfiguration document; NotImplemented for anything but expiration."""
    root = parse(body, "LifecycleConfiguration")
    nodes = root.findall("Rule")
    if not 1 <= len(nodes) <= MAX_RULES:
        raise malformed()
    rules = [_rule(node) for node in nodes]
    if len({rule.id for rule in rules}) != len(rules):
        raise S3Error("InvalidArgument", "Rule ID must be unique.", ArgumentName="ID")
    return rules


def _rule(node: Element) -> Rule:
    for child in node:
        if child.tag not in ("ID", "Status", "Prefix", "Filter", "Expiration"):
            raise S3Error(
                "NotImplemented", f"A lifecycle rule with {child.tag} is not supported; only Expiration is."
            )
    status = text(node, "Status")
    if status not in ("Enabled", "Disabled"):
        raise malformed()
    name = text(node, "ID", "") or uuid.uuid4().hex
    if len(name) > 255:
        raise S3Error(
            "InvalidArgument", "ID length should not exceed allowed limit of 255.", ArgumentName="ID"
        )
    prefix, in_filter = text(node, "Prefix", ""), node.find("Filter")
    if in_filter is not None:
        for child in in_filter:
            if child.tag != "Prefix":
                raise S3Error(
                    "NotImplemented", f"A lifecycle filter by {child.tag} is not supported; only Prefix is."
                )
        prefix = text(in_filter, "Prefix", "")
    expiration = node.find("Expiration")
    if expiration is None or len(expiration) != 1:
        raise malformed()
    kind, value = expiration[0].tag, (expiration[0].text or "").strip()
    if kind == "Days" and re.fullmatch(r"-?\d{1,9}", value):
        if int(value) <= 0:
            raise S3Error("InvalidArgument", "'Days' for Expiration action must be a positive integer.")
        return Rule(name, prefix, status == "Enabled", days=int(value), filter=in_filter is not None)
    if kind == "Date":
        return Rule(name, prefix, status == "Enabled", date=_date(value), filter=in_filter is not None)
    if kind == "ExpiredObjectDeleteMarker":
        raise S3Error("NotImplemented", "Versions are not supported.")
    raise malformed()


def _date(value: str) -> str:
    try:
        if not _DATE.fullmatch(value):
            raise ValueError
        return datetime.date.fromisoformat(value[:10]).isoformat()
    except ValueError:
        raise S3Error("InvalidArgument", "'Date' must be at midnight GMT.") from None


async def put_lifecycle(service: Service, call: Call) -> Reply:
    bucket = service.bucket(call)
    require_md5(service, call)
    rules = parse_rules(await service.document(call, 1 << 20))
    if str(bucket.attributes.get("x-emc-file-system-access-enabled", "")).lower() == "true":
        raise S3Error("InvalidRequest", "A bucket with file-system access cannot have a lifecycle.")
    service.index.update_bucket(bucket.id, lifecycle=json.dumps([asdict(rule) for rule in rules]))
    return Reply()


async def get_lifecycle(service: Service, call: Call) -> Reply:
    bucket = service.bucket(call)
    if bucket.lifecycle is None:
        raise S3Error("NoSuchLifecycleConfiguration", "The lifecycle configuration does not exist.")
    return Reply(
        body=document("LifecycleConfiguration", [("Rule", list(_node(r))) for r in load(bucket.lifecycle)])
    )


def _node(rule: Rule) -> Iterator[Node]:
    yield "ID", rule.id
    if rule.filter:
        yield "Filter", [("Prefix", rule.prefix)]
    else:
        yield "Prefix", rule.prefix
    yield "Status", "Enabled" if rule.enabled else "Disabled"
    if rule.days is not None:
        yield "Expiration", [("Days", rule.days)]
    else:
        yield "Expiration", [("Date", f"{rule.date}T00:00:00.000Z")]


async def delete_lifecycle(service: Service, call: Call) -> Reply:
    service.index.update_bucket(service.bucket(call).id, lifecycle=None)
    return Reply(204)


def load(stored: str) -> list[Rule]:
    """The rules as kept with a bucket."""
    return [Rule(**fields) for fields in json.loads(stored)]


def expire(service: Service) -> int:
    """Delete every object whose time has come; how many there were."""
    now, gone = service.clock(), 0
    for bucket in service.index.lifecycle_buckets():
        rules = load(bucket.lifecycle or "[]")
        due: list[Entry] = []
        for entry in service.index.scan(bucket.id, prefix="", after=None, beyond=None):
            times = [t for t in (rule.expires(entry) for rule in rules) if t is not None]
            if times and max(min(times), retained_until(bucket, entry)) <= now:
                due.append(entry)
        for entry in due:
            service.index.delete(bucket.id, entry.key)
            service.drop(entry.file, entry.size)
        gone += len(due)
    return gone
