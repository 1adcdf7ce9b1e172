"""IAM users: inline policies and one access key, whose secret the array shows only once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from kvlab.errors import KvlabError
from kvlab.objectscale import bucket_policies
from kvlab.objectscale.management import Management
from kvlab.objectscale.plan import Call, Document, Plan

_KEYS = 2
"""Access keys a user may have, as on AWS."""


@dataclass(frozen=True)
class IamUser:
    """A wanted IAM user. `policies` are its inline policies by name, None leaves them as they are."""

    name: str
    namespace: str
    policies: Mapping[str, Mapping[str, Any]] | None = None

    @property
    def about(self) -> str:
        return f"IAM user {self.name} of namespace {self.namespace}"

    def call(self, action: str, **more: str) -> Call:
        """All parameters are in the query; the namespace is a header (facts/objectscale.md 1.7)."""
        query = {"Action": action, "UserName": self.name, **more}
        return Call("POST", "/iam", self.about, query=query, headers={"x-emc-namespace": self.namespace})


def find(api: Management, user: IamUser) -> Document | None:
    """The user's inline policies by name (only asked for when they are wanted) and ids of access keys, or None."""
    if api.find_by(user.call("GetUser")) is None:
        return None
    names = (
        _result(api, user, "ListUserPolicies").get("PolicyNames") or [] if user.policies is not None else []
    )
    policies = {name: _policy(api, user, name) for name in names}
    return {"policies": policies, "access_keys": access_keys(api, user)}


def access_keys(api: Management, user: IamUser) -> list[str]:
    """Ids of the user's access keys; none for a user that is not there."""
    said = api.find_by(user.call("ListAccessKeys")) or {}
    return [
        key["AccessKeyId"] for key in (said.get("ListAccessKeysResult") or {}).get("AccessKeyMetadata") or ()
    ]


def plan(user: IamUser, found: Document | None) -> Plan:
    """Make the user, or change its policies. Its access key is new_access_key()'s business."""
    before: Document = {"state": "absent"} if found is None else {"state": "present"}
    after: Document = {"state": "present"}
    calls = [user.call("CreateUser")] if found is None else []
    if user.policies is not None:
        have = found["policies"] if found else {}
        before |= {"policies": have} if found else {}
        after["policies"] = dict(user.policies)
        calls += [
            user.call("DeleteUserPolicy", PolicyName=name) for name in have if name not in user.policies
        ]
        calls += [
            user.call("PutUserPolicy", PolicyName=name, PolicyDocument=json.dumps(wanted))
            for name, wanted in user.policies.items()
            if name not in have or bucket_policies.normal(have[name]) != bucket_policies.normal(wanted)
        ]
    return Plan(tuple(calls), before, after)


def removal(user: IamUser, found: Document | None) -> Plan:
    """Remove the user with its inline policies and access keys, which would hold it."""
    gone = {"state": "absent"}
    if found is None:
        return Plan(before=gone, after=gone)
    calls = [user.call("DeleteUserPolicy", PolicyName=name) for name in found["policies"]]
    calls += [user.call("DeleteAccessKey", AccessKeyId=key) for key in found["access_keys"]]
    return Plan((*calls, user.call("DeleteUser")), {"state": "present"}, gone)


def needs_key(user: IamUser, kept: Mapping[str, str] | None, keys: Sequence[str]) -> bool:
    """Whether an access key is to be made: the one that is kept is not among the user's, or none is kept."""
    if kept is not None and kept.get("access_key") in keys:
        return False
    if len(keys) >= _KEYS:
        raise KvlabError(
            f"{user.about}: it has two access keys, and the secret of neither is kept in the given file; delete one of "
            f"{', '.join(keys)}, then run again"
        )
    return True


def new_access_key(api: Management, user: IamUser) -> dict[str, str]:
    """A new access key with its secret."""
    made = api.send(user.call("CreateAccessKey"))["CreateAccessKeyResult"]["AccessKey"]
    return {"access_key": made["AccessKeyId"], "secret_key": made["SecretAccessKey"]}


def _result(api: Management, user: IamUser, action: str, **more: str) -> Document:
    return dict(api.send(user.call(action, **more)).get(f"{action}Result") or {})


def _policy(api: Management, user: IamUser, name: str) -> Document:
    """IAM gives the document as a string, which AWS also encodes as in a URL."""
    content = _result(api, user, "GetUserPolicy", PolicyName=name)["PolicyDocument"]
    return dict(json.loads(unquote(content) if content.startswith("%") else content))
