"""What a value is called by the modules, when written to the array and when read back (facts/objectscale.md 1.3, 1.6).

The API answers with other names and types than it takes; every comparison goes through these tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kvlab.errors import KvlabError

Kind = Literal["text", "word", "title", "flag", "number", "limit", "list", "csv"]
"""`word` and `title` are lower case here, lower or Title case there; `limit` has -1 for none; `csv` is a list here."""


@dataclass(frozen=True)
class Field:
    """One setting. `read` are the names in replies, the first that is there counts.

    `change` names the call that changes it on a resource that exists; None for a setting fixed at creation.
    """

    option: str
    write: str
    read: tuple[str, ...]
    kind: Kind
    change: str | None = None

    def current(self, reply: Mapping[str, Any]) -> Any:
        """The setting as the module's option would give it."""
        found = next((reply[name] for name in self.read if reply.get(name) not in (None, "")), None)
        return _read(self.kind, found)


BUCKET: tuple[Field, ...] = (
    Field("replication_group", "vpool", ("vpool",), "text"),
    Field("head_type", "head_type", ("api_type",), "word"),
    Field("filesystem", "filesystem_enabled", ("fs_access_enabled",), "flag"),
    Field("encryption", "is_encryption_enabled", ("is_encryption_enabled",), "flag"),
    Field("owner", "owner", ("owner",), "text", "owner"),
    Field("quota_gb", "blockSize", ("block_size",), "limit", "quota"),
    Field("quota_notify_gb", "notificationSize", ("notification_size",), "limit", "quota"),
    Field("retention", "retention", ("default_retention", "retention"), "number", "retention"),
    Field("autocommit_period", "autocommit_period", ("auto_commit_period",), "number", "autocommit"),
    Field("available_in_outage", "is_stale_allowed", ("is_stale_allowed",), "flag", "outage"),
    Field("read_only_in_outage", "is_tso_read_only", ("is_tso_read_only",), "flag", "outage"),
    Field("versioning", "versioning_status", ("versioning_status",), "title", "versioning"),
)
"""Tags and the lock have calls of their own and stand beside this table."""

NAMESPACE: tuple[Field, ...] = (
    Field(
        "replication_group",
        "default_data_services_vpool",
        ("default_data_services_vpool",),
        "text",
        "update",
    ),
    Field("allowed_replication_groups", "allowed_vpools_list", ("allowed_vpools_list",), "list", "allowed"),
    Field("admins", "namespace_admins", ("namespace_admins",), "csv", "update"),
    Field("encryption", "is_encryption_enabled", ("is_encryption_enabled",), "flag", "update"),
    Field("available_in_outage", "is_stale_allowed", ("is_stale_allowed",), "flag", "update"),
    Field("bucket_quota_gb", "default_bucket_block_size", ("default_bucket_block_size",), "limit", "update"),
    Field("compliance", "compliance_enabled", ("is_compliance_enabled",), "flag"),
    Field("quota_gb", "blockSize", ("blockSize",), "limit", "quota"),
    Field("quota_notify_gb", "notificationSize", ("notificationSize",), "limit", "quota"),
)


def current(fields: Sequence[Field], reply: Mapping[str, Any]) -> dict[str, Any]:
    """A reply in the words of the options."""
    return {field.option: field.current(reply) for field in fields}


def body(fields: Sequence[Field], values: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are in `values`, as the array takes them."""
    return {
        field.write: _written(field.kind, values[field.option]) for field in fields if field.option in values
    }


def differing(fields: Sequence[Field], wanted: Mapping[str, Any], have: Mapping[str, Any]) -> list[Field]:
    """The wanted settings that are not as they should be."""
    return [f for f in fields if f.option in wanted and wanted[f.option] != have[f.option]]


def refuse_fixed(
    fields: Sequence[Field], wanted: Mapping[str, Any], have: Mapping[str, Any], about: str
) -> None:
    """Raise KvlabError that names all differing settings which are fixed at creation."""
    fixed = [f.option for f in differing(fields, wanted, have) if f.change is None]
    if fixed:
        found = "; ".join(f"{option} is {have[option]!r}, not {wanted[option]!r}" for option in fixed)
        raise KvlabError(
            f"{about}: {found}. That is fixed at creation: correct the inventory, choose another name, or remove it "
            "first with state: absent"
        )


def is_true(found: Any) -> bool:
    """Flags come as JSON booleans or as strings, by field."""
    return str(found).lower() == "true"


def _written(kind: Kind, value: Any) -> Any:
    match kind:
        case "csv":
            return ",".join(value)
        case "title":
            return str(value).title()
        case _:
            return value


def _read(kind: Kind, found: Any) -> Any:
    match kind:
        case "flag":
            return is_true(found)
        case "word" | "title":
            return str(found or "").lower()
        case "number":
            return int(found or 0)
        case "limit":
            # -1 and -2 are the array's words for unset and infinite.
            return max(int(found or -1), -1)
        case "list":
            return sorted(found or ())
        case "csv":
            return sorted(part.strip() for part in (found or "").split(",") if part.strip())
        case _:
            return str(found or "")
