"""Object users and their secret keys."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from management_array import Array, error

from kvlab.errors import KvlabError
from kvlab.objectscale import secret_keys, users
from kvlab.objectscale.errors import LimitError
from kvlab.objectscale.plan import Plan, converge
from kvlab.objectscale.secret_keys import Wish
from kvlab.objectscale.users import ObjectUser

NEW, OLD, OTHER = "not-a-secret-new", "not-a-secret-old", "not-a-secret-other"
INFO = "GET /object/users/kvlab/info?namespace=kvlab"
EXIST = "GET /object/user-secret-keys/exist/kvlab/kvlab"
KEYS = "GET /object/user-secret-keys/kvlab/kvlab"


def key_id(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def calls(plan: Plan) -> list[tuple[str, str, Any]]:
    return [(call.method, call.path.removeprefix("/object/users"), call.body) for call in plan.calls]


def test_a_new_user_is_made_with_its_tags_and_then_locked() -> None:
    user = ObjectUser("kvlab", "kvlab", {"lab": "one"}, locked=True)
    assert calls(users.plan(user, None)) == [
        ("POST", "", {"user": "kvlab", "namespace": "kvlab", "tags": [{"name": "lab", "value": "one"}]}),
        ("PUT", "/lock", {"user": "kvlab", "namespace": "kvlab", "isLocked": True}),
    ]


def test_tags_are_written_under_another_name_than_they_are_read() -> None:
    found = {"name": "kvlab", "namespace": "kvlab", "locked": False, "tag": [{"name": "lab", "value": "one"}]}
    assert not users.plan(ObjectUser("kvlab", "kvlab", {"lab": "one"}, locked=False), found).changed
    changed = users.plan(ObjectUser("kvlab", "kvlab", {"lab": "two"}), found)
    assert calls(changed) == [("PUT", "/kvlab/tags", {"tags": [{"name": "lab", "value": "two"}]})]
    assert changed.calls[0].query == {"namespace": "kvlab"}


def test_a_lock_is_set_and_taken_off() -> None:
    found = {"name": "kvlab", "namespace": "kvlab", "locked": False}
    plan = users.plan(ObjectUser("kvlab", "kvlab", locked=True), found)
    assert calls(plan) == [("PUT", "/lock", {"user": "kvlab", "namespace": "kvlab", "isLocked": True})]
    assert plan.before == {"state": "present", "locked": False}
    assert plan.after == {"state": "present", "locked": True}


def test_what_is_not_asked_for_stays() -> None:
    assert not users.plan(
        ObjectUser("kvlab", "kvlab"), {"locked": True, "tag": [{"name": "a", "value": "b"}]}
    ).changed


def test_a_user_of_that_name_in_another_namespace_is_refused(array: Array) -> None:
    array.tell(INFO, {"name": "kvlab", "namespace": "other"})
    with array.management() as api, pytest.raises(KvlabError, match="is taken by a user of namespace other"):
        users.find(api, ObjectUser("kvlab", "kvlab"))


@pytest.mark.parametrize("found", [{"namespace": "kvlab"}, {"name": "kvlab"}])
def test_a_user_of_the_wanted_namespace_is_found(array: Array, found: dict[str, str]) -> None:
    array.tell(INFO, found)
    with array.management() as api:
        assert users.find(api, ObjectUser("kvlab", "kvlab")) == found


def test_removal_names_user_and_namespace() -> None:
    user = ObjectUser("kvlab", "kvlab")
    assert calls(users.removal(user, {"name": "kvlab"})) == [
        ("POST", "/deactivate", {"user": "kvlab", "namespace": "kvlab"})
    ]
    assert not users.removal(user, None).changed


def wish(secret: str = NEW, **more: Any) -> Wish:
    return Wish("kvlab", "kvlab", secret, **more)


def have(*secrets: str) -> dict[str, str]:
    return {str(slot): key_id(secret) for slot, secret in enumerate(secrets, 1)}


def keys_reply(*secrets: str, ids: bool = True, shown: bool = False) -> dict[str, Any]:
    reply: dict[str, Any] = {}
    for slot in (1, 2):
        secret = secrets[slot - 1] if len(secrets) >= slot else ""
        reply[f"secret_key_{slot}_exist"] = bool(secret)
        reply[f"secret_key_{slot}_id"] = key_id(secret) if secret and ids else ""
        reply[f"secret_key_{slot}"] = secret if shown else ""
    return reply


def find(array: Array) -> dict[str, str]:
    with array.management() as api:
        return secret_keys.find(api, "kvlab", "kvlab")


def test_ids_come_from_the_call_that_shows_no_secret(array: Array) -> None:
    array.tell(EXIST, keys_reply(OLD, NEW))
    assert find(array) == have(OLD, NEW)
    assert array.calls == [EXIST]


def test_keys_are_read_only_where_that_call_has_no_ids(array: Array) -> None:
    array.tell(EXIST, keys_reply(OLD, ids=False))
    array.tell(KEYS, keys_reply(OLD, ids=False, shown=True))
    assert find(array) == have(OLD)


def test_a_user_without_keys_or_none_at_all_costs_one_request(array: Array) -> None:
    array.tell(EXIST, keys_reply(), error(400, 1004))
    assert find(array) == {}
    assert find(array) == {}
    assert array.calls == [EXIST, EXIST]


def test_a_key_that_is_there_is_never_sent_again() -> None:
    assert not secret_keys.plan(wish(), have(NEW)).changed
    assert not secret_keys.plan(wish(), have(OLD, NEW)).changed


def test_the_first_key_is_added_without_an_expiry() -> None:
    plan = secret_keys.plan(wish(old_key_expiry_minutes=10), {})
    assert plan.calls[0].body == {"namespace": "kvlab", "secretkey": NEW}
    assert plan.after == {"key_ids": [key_id(NEW)]}


def test_another_key_is_not_replaced_by_surprise() -> None:
    with pytest.raises(KvlabError, match="the array has another one; .* rotate: true"):
        secret_keys.plan(wish(), have(OLD))


def test_rotation_adds_the_key_beside_the_old_one() -> None:
    plan = secret_keys.plan(wish(rotate=True), have(OLD))
    assert plan.calls[0].body == {"namespace": "kvlab", "secretkey": NEW}
    assert plan.after == {"key_ids": sorted([key_id(OLD), key_id(NEW)])}


def test_rotation_can_let_the_array_end_the_old_one() -> None:
    plan = secret_keys.plan(wish(rotate=True, old_key_expiry_minutes=10), have(OLD))
    assert plan.calls[0].body == {
        "namespace": "kvlab",
        "secretkey": NEW,
        "existing_key_expiry_time_mins": "10",
    }


def test_a_third_key_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(LimitError, match="no third is allowed"):
        secret_keys.plan(wish(rotate=True), have(OLD, OTHER))


def test_the_old_key_is_removed_by_its_id_once_the_new_one_is_there() -> None:
    plan = secret_keys.plan(wish(expire_old=True), have(OLD, NEW))
    assert [(c.path, c.body) for c in plan.calls] == [
        (
            "/object/user-secret-keys/kvlab/deactivate",
            {"namespace": "kvlab", "secret_key_id": key_id(OLD)},
        )
    ]
    assert plan.after == {"key_ids": [key_id(NEW)]}
    assert not secret_keys.plan(wish(expire_old=True), have(NEW)).changed


def test_the_old_key_is_kept_as_long_as_the_new_one_is_not_there() -> None:
    for found in (have(OLD), {}):
        with pytest.raises(KvlabError, match="is not there yet, and the others are kept"):
            secret_keys.plan(wish(expire_old=True), found)


def test_one_key_is_removed_by_its_id() -> None:
    plan = secret_keys.removal("kvlab", "kvlab", key_id(OLD), have(OLD, NEW))
    assert plan.calls[0].body == {"namespace": "kvlab", "secret_key_id": key_id(OLD)}
    assert plan.after == {"key_ids": [key_id(NEW)]}
    assert not secret_keys.removal("kvlab", "kvlab", key_id(OLD), have(NEW)).changed


def test_two_plays_that_add_the_same_key_at_once_end_with_one(array: Array) -> None:
    array.tell(EXIST, keys_reply(), keys_reply(NEW))
    array.tell("POST /object/user-secret-keys/kvlab", error(400, 1031, "limit"))
    with array.management() as api:
        plan = converge(
            api,
            lambda: secret_keys.find(api, "kvlab", "kvlab"),
            lambda found: secret_keys.plan(wish(), found),
            check=False,
        )
    assert not plan.changed
    assert array.calls.count("POST /object/user-secret-keys/kvlab") == 1


def test_no_key_is_in_what_is_printed() -> None:
    plan = secret_keys.plan(wish(rotate=True), have(OLD))
    assert NEW not in f"{wish()} {plan} {plan.before} {plan.after}"
