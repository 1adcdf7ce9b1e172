"""IAM of a namespace: users, access keys, inline and managed policies. All parameters are in the query.

Users and access keys are those that S3 verifies; what a user may do there is what its policies say.
"""

from __future__ import annotations

import datetime
import json
import re
import secrets
from collections.abc import Callable

from kvlab.emulator import policies
from kvlab.emulator.management.ask import Answer, Array, Ask
from kvlab.emulator.management.errors import IamError
from kvlab.emulator.management.records import Document
from kvlab.emulator.users import User

USER, POLICY = "iam user", "iam policy"
MAX_KEYS = 2
_NAME = re.compile(r"[A-Za-z0-9_+=,.@-]{1,64}")
_BUILT_IN: dict[str, list[str]] = {
    "ECSS3FullAccess": ["s3:*"],
    "ECSS3ReadOnlyAccess": ["s3:Get*", "s3:List*"],
}


def serve(ask: Ask) -> Answer:
    """One IAM request; IamError for what is refused."""
    action = ask.query.get("Action", "")
    handler = _ACTIONS.get(action)
    if handler is None:
        raise IamError(
            "InvalidAction", f"The action {action or '(none)'} is not supported by the emulated array."
        )
    namespace = ask.headers.get("x-emc-namespace", "") or ask.admin.namespace
    if ask.admin.namespace and namespace != ask.admin.namespace:
        raise IamError(
            "AccessDenied", f"The user {ask.admin.name} has no rights in the namespace {namespace}."
        )
    if ask.records.get("namespace", namespace) is None:
        raise IamError("NoSuchEntity", f"The namespace {namespace or '(none)'} does not exist.")
    result = handler(ask, namespace)
    document: Document = {"ResponseMetadata": {"RequestId": secrets.token_hex(8)}}
    if result:
        document = {f"{action}Result": result} | document
    return Answer(document, f"{action}Response")


def _create_user(ask: Ask, namespace: str) -> Document:
    name = _given(ask, "UserName")
    if not _NAME.fullmatch(name):
        raise IamError("ValidationError", f"The user name {name} is not valid.")
    if ask.query.get("Path", "/") != "/":
        raise IamError("ValidationError", "The path must be /.")
    if _key(namespace, name) in ask.records.all(USER):
        raise IamError("EntityAlreadyExists", f"User with name {name} already exists.")
    made: Document = {"namespace": namespace, "name": name, "id": "AIDA" + secrets.token_hex(8).upper()}
    made |= {"created": _now(ask.array), "inline": {}, "attached": [], "keys": []}
    ask.records.put(USER, _key(namespace, name), made)
    return {"User": _shown(made)}


def _get_user(ask: Ask, namespace: str) -> Document:
    return {"User": _shown(_user(ask, namespace))}


def _list_users(ask: Ask, namespace: str) -> Document:
    users = [_shown(user) for user in ask.records.all(USER).values() if user["namespace"] == namespace]
    return {"Users": users, "IsTruncated": False}


def _delete_user(ask: Ask, namespace: str) -> Document:
    user = _user(ask, namespace)
    if user["keys"] or user["inline"] or user["attached"]:
        raise IamError("DeleteConflict", "Cannot delete entity, must delete access keys and policies first.")
    ask.records.remove(USER, _key(namespace, user["name"]))
    return {}


def _create_access_key(ask: Ask, namespace: str) -> Document:
    """The secret is in this reply and in no other."""
    user = _user(ask, namespace)
    if len(user["keys"]) >= MAX_KEYS:
        raise IamError("LimitExceeded", f"Cannot exceed quota for AccessKeysPerUser: {MAX_KEYS}.")
    key: Document = {"id": "AKIA" + secrets.token_hex(8).upper(), "secret": secrets.token_urlsafe(30)}
    key |= {"created": _now(ask.array), "status": "Active"}
    user["keys"].append(key)
    _keep(ask.array, user)
    return {"AccessKey": _shown_key(user, key) | {"SecretAccessKey": key["secret"]}}


def _list_access_keys(ask: Ask, namespace: str) -> Document:
    user = _user(ask, namespace)
    return {"AccessKeyMetadata": [_shown_key(user, key) for key in user["keys"]], "IsTruncated": False}


def _update_access_key(ask: Ask, namespace: str) -> Document:
    user, status = _user(ask, namespace), _given(ask, "Status")
    if status not in ("Active", "Inactive"):
        raise IamError("ValidationError", "Status must be Active or Inactive.")
    _access_key(ask, user)["status"] = status
    _keep(ask.array, user)
    return {}


def _delete_access_key(ask: Ask, namespace: str) -> Document:
    user = _user(ask, namespace)
    gone = _access_key(ask, user)
    user["keys"].remove(gone)
    ask.array.service.users.remove(gone["id"])
    _keep(ask.array, user)
    return {}


def _put_user_policy(ask: Ask, namespace: str) -> Document:
    user = _user(ask, namespace)
    user["inline"][_given(ask, "PolicyName")] = _document(ask)
    _keep(ask.array, user)
    return {}


def _get_user_policy(ask: Ask, namespace: str) -> Document:
    user, name = _user(ask, namespace), _given(ask, "PolicyName")
    if name not in user["inline"]:
        raise _missing("user policy", name)
    return {"UserName": user["name"], "PolicyName": name, "PolicyDocument": json.dumps(user["inline"][name])}


def _list_user_policies(ask: Ask, namespace: str) -> Document:
    return {"PolicyNames": sorted(_user(ask, namespace)["inline"])}


def _delete_user_policy(ask: Ask, namespace: str) -> Document:
    user, name = _user(ask, namespace), _given(ask, "PolicyName")
    if name not in user["inline"]:
        raise _missing("user policy", name)
    del user["inline"][name]
    _keep(ask.array, user)
    return {}


def _create_policy(ask: Ask, namespace: str) -> Document:
    name = _given(ask, "PolicyName")
    arn = f"urn:ecs:iam::{namespace}:policy/{name}"
    if ask.records.get(POLICY, arn) is not None:
        raise IamError("EntityAlreadyExists", f"A policy called {name} already exists.")
    made: Document = {"namespace": namespace, "name": name, "document": _document(ask)}
    made |= {"created": _now(ask.array), "description": ask.query.get("Description", "")}
    ask.records.put(POLICY, arn, made)
    return {"Policy": _shown_policy(ask, arn, made)}


def _get_policy(ask: Ask, namespace: str) -> Document:
    arn = _given(ask, "PolicyArn")
    return {"Policy": _shown_policy(ask, arn, _policy(ask.array, namespace, arn))}


def _delete_policy(ask: Ask, namespace: str) -> Document:
    arn = _given(ask, "PolicyArn")
    _policy(ask.array, namespace, arn)
    if any(arn in user["attached"] for user in ask.records.all(USER).values()):
        raise IamError("DeleteConflict", "Cannot delete a policy attached to entities.")
    ask.records.remove(POLICY, arn)
    return {}


def _attach_user_policy(ask: Ask, namespace: str) -> Document:
    user, arn = _user(ask, namespace), _given(ask, "PolicyArn")
    _policy(ask.array, namespace, arn)
    if arn not in user["attached"]:
        user["attached"].append(arn)
    _keep(ask.array, user)
    return {}


def _detach_user_policy(ask: Ask, namespace: str) -> Document:
    user, arn = _user(ask, namespace), _given(ask, "PolicyArn")
    if arn not in user["attached"]:
        raise _missing("policy", arn)
    user["attached"].remove(arn)
    _keep(ask.array, user)
    return {}


def _list_attached(ask: Ask, namespace: str) -> Document:
    """By ARN: the vendor's document says strings, where AWS has objects."""
    return {"AttachedPolicies": _user(ask, namespace)["attached"]}


_ACTIONS: dict[str, Callable[[Ask, str], Document]] = {
    "CreateUser": _create_user,
    "GetUser": _get_user,
    "ListUsers": _list_users,
    "DeleteUser": _delete_user,
    "CreateAccessKey": _create_access_key,
    "ListAccessKeys": _list_access_keys,
    "UpdateAccessKey": _update_access_key,
    "DeleteAccessKey": _delete_access_key,
    "PutUserPolicy": _put_user_policy,
    "GetUserPolicy": _get_user_policy,
    "ListUserPolicies": _list_user_policies,
    "DeleteUserPolicy": _delete_user_policy,
    "CreatePolicy": _create_policy,
    "GetPolicy": _get_policy,
    "DeletePolicy": _delete_policy,
    "AttachUserPolicy": _attach_user_policy,
    "DetachUserPolicy": _detach_user_policy,
    "ListAttachedUserPolicies": _list_attached,
}


def publish(array: Array, user: Document) -> None:
    """Let S3 know the user's active keys with what its policies allow."""
    documents = list(user["inline"].values())
    documents += [_policy(array, user["namespace"], arn)["document"] for arn in user["attached"]]
    for key in user["keys"]:
        if key["status"] == "Active":
            found = User(
                key["id"],
                (key["secret"],),
                user["namespace"],
                iam_name=user["name"],
                policies=tuple(documents),
            )
            array.service.users.put(found)
        else:
            array.service.users.remove(key["id"])


def _keep(array: Array, user: Document) -> None:
    array.records.put(USER, _key(user["namespace"], user["name"]), user)
    publish(array, user)


def _given(ask: Ask, name: str) -> str:
    value = ask.query.get(name, "")
    if not value:
        raise IamError("ValidationError", f"The parameter {name} is missing.")
    return value


def _user(ask: Ask, namespace: str) -> Document:
    name = _given(ask, "UserName")
    found = ask.records.get(USER, _key(namespace, name))
    if found is None:
        raise _missing("user", name)
    return found


def _access_key(ask: Ask, user: Document) -> Document:
    wanted = _given(ask, "AccessKeyId")
    for key in user["keys"]:
        if key["id"] == wanted:
            assert isinstance(key, dict)
            return key
    raise _missing("access key", wanted)


def _policy(array: Array, namespace: str, arn: str) -> Document:
    """A policy of the namespace or one that every namespace has."""
    built_in = arn.removeprefix("urn:ecs:iam:::policy/")
    if built_in != arn and built_in in _BUILT_IN:
        statement = {"Effect": "Allow", "Action": _BUILT_IN[built_in], "Resource": ["*"]}
        return {"name": built_in, "document": {"Statement": [statement]}, "created": "", "description": ""}
    found = array.records.get(POLICY, arn)
    if found is None or found["namespace"] != namespace:
        raise _missing("policy", arn)
    return found


def _document(ask: Ask) -> Document:
    try:
        found = json.loads(_given(ask, "PolicyDocument"))
        if not isinstance(found, dict):
            raise ValueError("it is no object")
        policies.check(found, principal=False)
    except (ValueError, RecursionError) as error:
        raise IamError("MalformedPolicyDocument", f"The policy is not valid: {error}.") from None
    return found


def _shown(user: Document) -> Document:
    arn = f"urn:ecs:iam::{user['namespace']}:user/{user['name']}"
    return {
        "Arn": arn,
        "CreateDate": user["created"],
        "Path": "/",
        "UserId": user["id"],
        "UserName": user["name"],
        "Tags": [],
    }


def _shown_key(user: Document, key: Document) -> Document:
    return {
        "AccessKeyId": key["id"],
        "CreateDate": key["created"],
        "Status": key["status"],
        "UserName": user["name"],
    }


def _shown_policy(ask: Ask, arn: str, found: Document) -> Document:
    attached = sum(arn in user["attached"] for user in ask.records.all(USER).values())
    return {
        "Arn": arn,
        "PolicyName": found["name"],
        "Path": "/",
        "AttachmentCount": attached,
        "IsAttachable": True,
        "CreateDate": found["created"],
        "UpdateDate": found["created"],
        "Description": found["description"],
        "DefaultVersionId": "v1",
    }


def _key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


def _now(array: Array) -> str:
    now = datetime.datetime.fromtimestamp(array.service.clock(), datetime.UTC)
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def _missing(what: str, name: str) -> IamError:
    return IamError("NoSuchEntity", f"The {what} with name {name} cannot be found.")
