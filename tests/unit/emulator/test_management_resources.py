"""Namespaces, users, keys, buckets and topology of the emulated management API."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from management_helpers import Api, Managed

NAMESPACES = "/object/namespaces/namespace"
KEYS = "/object/user-secret-keys"
SECRET = "not-a-secret-but-long-enough"
_numbers = count()


@pytest.fixture(scope="module")
def array(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    running = Managed(
        tmp_path_factory.mktemp("array"), ["--replication-group", "rg1", "--replication-group", "rg2"]
    )
    running.arguments += ["--node-address", "127.0.0.1", "--node-address", "127.0.0.2"]
    running.start()
    running.enter().ok("POST", NAMESPACES, {"namespace": "blue"})
    yield running
    running.stop()


@pytest.fixture(scope="module")
def api(array: Managed) -> Api:
    return array.enter()


@pytest.fixture
def namespace(api: Api) -> str:
    name = f"ns{next(_numbers)}"
    api.ok("POST", NAMESPACES, {"namespace": name})
    return name


@pytest.fixture
def user(api: Api, namespace: str) -> str:
    """An object user of the same name as its namespace."""
    api.ok("POST", "/object/users", {"user": namespace, "namespace": namespace})
    return namespace


def groups(api: Api) -> dict[str, str]:
    found = api.ok("GET", "/vdc/data-service/vpools")["data_service_vpool"]
    return {group["name"]: group["id"] for group in found}


def key_id(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


# Topology


def test_groups_have_urns_that_stay(api: Api) -> None:
    found = groups(api)
    assert list(found) == ["rg1", "rg2"]
    for name, urn in found.items():
        assert urn.startswith("urn:storageos:ReplicationGroupInfo:")
        assert api.ok("GET", f"/vdc/data-service/vpools/{urn}")["name"] == name
    assert api.refused("GET", "/vdc/data-service/vpools/urn:none") == (1004, 400)


def test_there_is_a_node_for_each_data_address(api: Api) -> None:
    nodes = api.ok("GET", "/vdc/nodes")["node"]
    assert [node["data_ip"] for node in nodes] == ["127.0.0.1", "127.0.0.2"]
    assert len({node["nodename"] for node in nodes}) == 2
    assert all("simulated" in node["version"] and node["version"].startswith("4.") for node in nodes)


def test_vdc_licence_and_capacity(api: Api) -> None:
    assert api.ok("GET", "/object/vdcs/vdc/local")["vdcName"] == "vdc1"
    assert [vdc["local"] for vdc in api.ok("GET", "/object/vdcs/vdc/list")["vdc"]] == [True]
    assert "simulated" in api.ok("GET", "/license")["license_feature"][0]["model"]
    capacity = api.ok("GET", "/object/capacity")
    assert capacity["totalProvisioned_gb"] >= capacity["totalFree_gb"] > 0


def test_a_base_url_is_used_by_s3_at_once(api: Api, array: Managed, user: str) -> None:
    api.ok("POST", f"{KEYS}/{user}", {"namespace": user, "secretkey": SECRET})
    made = api.ok(
        "POST", "/object/baseurl", {"name": "lab", "base_url": "S3.lab.test", "is_namespace_in_host": False}
    )
    assert made["baseurl"] == "s3.lab.test"
    assert api.ok("GET", "/object/baseurl")["base_url"][0]["id"] == made["id"]
    assert api.ok("GET", f"/object/baseurl/{made['id']}")["namespace_in_host"] is False
    api.ok(
        "PUT",
        f"/object/baseurl/{made['id']}",
        {"name": "x", "base_url": "s3.x", "is_namespace_in_host": True},
    )
    assert api.ok("GET", f"/object/baseurl/{made['id']}")["namespace_in_host"] is True
    api.ok("POST", f"/object/baseurl/{made['id']}/deactivate")
    assert api.refused("GET", f"/object/baseurl/{made['id']}") == (1004, 400)


# Namespaces


def test_a_namespace_reads_back_under_its_other_names(api: Api) -> None:
    name = f"ns{next(_numbers)}"
    body = {
        "namespace": name,
        "default_data_services_vpool": groups(api)["rg2"],
        "allowed_vpools_list": [groups(api)["rg2"]],
        "is_encryption_enabled": True,
        "compliance_enabled": True,
        "is_stale_allowed": True,
        "default_bucket_block_size": 5,
        "namespace_admins": "blue-admin",
        "user_mapping": [{"domain": "lab.test", "attributes": [], "groups": ["ops"]}],
    }
    api.ok("POST", NAMESPACES, body)
    found = api.ok("GET", f"{NAMESPACES}/{name}")
    assert found["is_encryption_enabled"] == "true"  # text, where the request has a truth value
    assert found["is_compliance_enabled"] is True
    for same in (
        "default_data_services_vpool",
        "allowed_vpools_list",
        "default_bucket_block_size",
        "user_mapping",
    ):
        assert found[same] == body[same]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, 1005),
        ({"namespace": ""}, 1005),
        ({"namespace": 7}, 1008),
        ({"namespace": "a.b"}, 1008),
        ({"namespace": "blue"}, 1015),
        ({"namespace": "n", "default_data_services_vpool": "urn:none"}, 1004),
        ({"namespace": "n", "is_stale_allowed": "perhaps"}, 1008),
        ({"namespace": "n", "default_bucket_block_size": "many"}, 1008),
        ({"namespace": "n", "user_mapping": [{}]}, 1005),
    ],
)
def test_a_namespace_that_cannot_be_is_refused_and_not_half_made(api: Api, body: Any, code: int) -> None:
    assert api.refused("POST", NAMESPACES, body) == (code, 400)
    assert api.refused("GET", f"{NAMESPACES}/n") == (1004, 400)


def test_a_change_takes_deltas_and_needs_the_mappings(api: Api, namespace: str) -> None:
    path, known = f"{NAMESPACES}/{namespace}", groups(api)
    assert api.refused("PUT", path, {"is_stale_allowed": True}) == (1005, 400)
    added = {"vpools_added_to_allowed_vpools_list": [known["rg1"], known["rg2"]], "user_mapping": []}
    api.ok("PUT", path, added)
    removed = {"vpools_removed_from_allowed_vpools_list": [known["rg1"]], "user_mapping": []}
    api.ok("PUT", path, removed | {"is_encryption_enabled": True, "namespace_admins": "x"})
    found = api.ok("GET", path)
    assert found["allowed_vpools_list"] == [known["rg2"]]
    assert (found["is_encryption_enabled"], found["namespace_admins"]) == ("true", "x")


def test_a_namespace_has_a_quota(api: Api, namespace: str) -> None:
    path = f"{NAMESPACES}/{namespace}/quota"
    api.ok("PUT", path, {"blockSize": 10, "notificationSize": 8})
    assert api.ok("GET", path)["blockSize"] == 10
    assert api.ok("GET", f"{NAMESPACES}/{namespace}")["notificationSize"] == 8
    assert api.refused("PUT", path, {"blockSize": 10}) == (1005, 400)
    assert api.refused("PUT", path, {"blockSize": -1, "notificationSize": -1}) == (1008, 400)
    assert api.refused("PUT", path, {"blockSize": 5, "notificationSize": 6}) == (1008, 400)
    assert api.refused("PUT", path, {"blockSize": 0, "notificationSize": -1}) == (1008, 400)
    api.ok("DELETE", path)
    assert api.ok("GET", path)["blockSize"] == -1


def test_retention_classes(api: Api, namespace: str) -> None:
    path = f"{NAMESPACES}/{namespace}/retention"
    api.ok("POST", path, {"name": "short", "period": 60})
    assert api.refused("POST", path, {"name": "short", "period": 60}) == (1015, 400)
    api.ok("PUT", f"{path}/short", {"period": 30})
    assert api.ok("GET", path)["retention_class"] == [{"name": "short", "period": 30}]
    assert api.ok("GET", f"{path}/short")["period"] == 30
    assert api.refused("GET", f"{path}/none") == (1004, 400)


def test_a_namespace_goes_when_it_is_empty(api: Api, user: str) -> None:
    assert api.refused("POST", f"{NAMESPACES}/{user}/deactivate") == (1020, 400)
    api.ok("POST", "/object/users/deactivate", {"user": user, "namespace": user})
    api.ok("POST", f"{NAMESPACES}/{user}/deactivate")
    assert api.refused("GET", f"{NAMESPACES}/{user}") == (1004, 400)


def test_listings_have_pages_and_prefixes(api: Api) -> None:
    for letter in "abc":
        api.ok("POST", NAMESPACES, {"namespace": f"page-{letter}"})
    first = api.ok("GET", "/object/namespaces?name=page-*&limit=2")
    assert [n["name"] for n in first["namespace"]] == ["page-a", "page-b"]
    assert (first["MaxNamespaces"], first["Filter"]) == (2, "name=page-*")
    rest = api.ok("GET", f"/object/namespaces?name=page-*&limit=2&marker={first['NextMarker']}")
    assert [n["name"] for n in rest["namespace"]] == ["page-c"]
    assert "NextMarker" not in rest
    assert api.refused("GET", "/object/namespaces?limit=0") == (1008, 400)


def test_a_namespace_administrator_stays_in_it(array: Managed, namespace: str) -> None:
    api = array.enter("blue-admin")
    assert [n["name"] for n in api.ok("GET", "/object/namespaces")["namespace"]] == ["blue"]
    assert api.refused("GET", f"{NAMESPACES}/{namespace}") == (3000, 403)
    assert api.refused("POST", NAMESPACES, {"namespace": "other"}) == (3000, 403)
    assert api.refused("POST", "/object/users", {"user": "x", "namespace": namespace}) == (3000, 403)
    assert api.refused("POST", "/object/bucket", {"name": "b", "namespace": namespace}) == (3000, 403)
    api.ok("POST", "/object/bucket", {"name": "of-the-admin"})  # its own namespace goes without saying
    assert api.ok("GET", "/object/bucket/of-the-admin/info")["namespace"] == "blue"


@pytest.mark.parametrize("text", ["a\u0001", "a\ud800", "a\uffff"])
def test_what_xml_cannot_say_is_refused_on_its_way_in(api: Api, namespace: str, text: str) -> None:
    bodies = {
        "/object/bucket": {"name": "kv", "namespace": namespace, "default_group": text},
        "/object/users": {"user": "poison", "namespace": namespace, "tags": [{"name": "t", "value": text}]},
    }
    for path, body in bodies.items():
        # json.dumps writes the escapes that a hostile client would.
        headers = {
            "X-SDS-AUTH-TOKEN": api.token,
            "Accept": "application/json",
            "Content-Type": "application/json",
        }
        with api.array.http() as http:
            reply = http.post(path, content=json.dumps(body).encode(), headers=headers)
        assert (reply.status_code, reply.json()["code"]) == (400, 1013)
    assert api.ok("GET", f"/object/bucket?namespace={namespace}")["object_bucket"] == []


@pytest.mark.parametrize("name", ["a b", "a?", "a%", "a\u0001"])
def test_names_of_namespaces_are_plain(api: Api, name: str) -> None:
    assert api.refused("POST", NAMESPACES, {"namespace": name})[0] in (1008, 1013)


def test_iam_policies_end_with_their_namespace(api: Api) -> None:
    name = f"ns{next(_numbers)}"
    api.ok("POST", NAMESPACES, {"namespace": name})
    policy = '{"Statement":{"Effect":"Allow","Action":"s3:*","Resource":"*"}}'
    api.ok("POST", f"/iam?Action=CreatePolicy&PolicyName=p&PolicyDocument={policy}", x_emc_namespace=name)
    api.ok("POST", f"{NAMESPACES}/{name}/deactivate")
    api.ok("POST", NAMESPACES, {"namespace": name})
    asked = f"/iam?Action=GetPolicy&PolicyArn=urn:ecs:iam::{name}:policy/p"
    assert api.send("POST", asked, x_emc_namespace=name).status_code == 404


# Users and keys


def test_a_user_has_tags_in_the_plural_on_writing_and_singular_on_reading(api: Api, namespace: str) -> None:
    name = f"{namespace}-user"
    api.ok(
        "POST", "/object/users", {"user": name, "namespace": namespace, "tags": [{"name": "a", "value": "1"}]}
    )
    path = f"/object/users/{name}"
    assert api.ok("GET", f"{path}/info?namespace={namespace}")["tag"] == [{"name": "a", "value": "1"}]
    api.ok("POST", f"{path}/tags", {"tags": [{"name": "b", "value": "2"}]})
    assert api.refused("POST", f"{path}/tags", {"tags": [{"name": "b", "value": "3"}]}) == (1015, 400)
    api.ok("PUT", f"{path}/tags", {"tags": [{"name": "b", "value": "3"}]})
    assert api.refused("PUT", f"{path}/tags", {"tags": [{"name": "c", "value": "3"}]}) == (1004, 400)
    api.ok("DELETE", f"{path}/tags", {"tags": [{"name": "a"}]})
    assert api.refused("DELETE", f"{path}/tags", {"tags": [{"name": "a"}]}) == (1004, 400)
    assert api.ok("GET", f"{path}/tags")["tags"] == [{"name": "b", "value": "3"}]


def test_user_names_are_unique_over_the_array(api: Api, user: str) -> None:
    assert api.refused("POST", "/object/users", {"user": user, "namespace": "blue"}) == (1015, 400)
    assert api.refused("POST", "/object/users", {"user": "x", "namespace": "none"}) == (1004, 400)
    assert api.refused("POST", "/object/users", {"user": "a b", "namespace": "blue"}) == (1008, 400)
    assert api.refused("GET", "/object/users/nobody/info") == (1004, 400)
    assert user in [u["userid"] for u in api.ok("GET", "/object/users")["blobuser"]]
    assert api.ok("GET", f"/object/users/{user}")["blobuser"] == [{"userid": user, "namespace": user}]


def test_a_locked_user_cannot_use_s3(api: Api, array: Managed, user: str) -> None:
    api.ok("POST", f"{KEYS}/{user}", {"namespace": user, "secretkey": SECRET})
    client = array.client(user, SECRET)
    client.list_buckets()
    api.ok("PUT", "/object/users/lock", {"user": user, "namespace": user, "isLocked": True})
    assert api.ok("GET", f"/object/users/lock/{user}")["isLocked"] is True
    with pytest.raises(Exception, match="AccessDenied|InvalidAccessKeyId"):
        client.list_buckets()
    api.ok("PUT", "/object/users/lock", {"user": user, "namespace": user, "isLocked": False})
    client.list_buckets()


def test_a_user_that_owns_buckets_stays(api: Api, user: str) -> None:
    api.ok("POST", "/object/bucket", {"name": "kv", "namespace": user, "owner": user})
    assert api.refused("POST", "/object/users/deactivate", {"user": user, "namespace": user}) == (1020, 400)


def test_each_post_adds_a_key_and_the_third_is_refused(api: Api, array: Managed, user: str) -> None:
    path = f"{KEYS}/{user}"
    made = api.ok("POST", path, {"namespace": user})
    assert len(made["secret_key"]) == 40
    assert made["secret_key_id"] == key_id(made["secret_key"])
    api.ok("POST", path, {"namespace": user, "secretkey": SECRET})
    assert api.refused("POST", path, {"namespace": user}) == (1031, 400)
    assert api.refused("POST", path, {"namespace": user, "secretkey": SECRET}) == (1031, 400)
    found = api.ok("GET", path)
    assert (found["secret_key_1"], found["secret_key_2"]) == (made["secret_key"], SECRET)
    for secret in (made["secret_key"], SECRET):
        array.client(user, secret).list_buckets()


def test_the_exist_call_has_ids_and_no_secret(api: Api, user: str) -> None:
    api.ok("POST", f"{KEYS}/{user}", {"namespace": user, "secretkey": SECRET})
    found = api.ok("GET", f"{KEYS}/exist/{user}/{user}")
    assert (found["secret_key_1_exist"], found["secret_key_2_exist"]) == (True, False)
    assert (found["secret_key_1_id"], found["secret_key_2_id"]) == (key_id(SECRET), "")
    assert (found["secret_key_1"], found["secret_key_2"]) == ("", "")


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("nobody", {"namespace": "blue"}, 1004),
        ("{user}", {"namespace": "blue"}, 1004),
        ("{user}", {"secretkey": ""}, 1008),
        ("{user}", {"existing_key_expiry_time_mins": "soon"}, 1008),
        ("{user}", {"existing_key_expiry_time_mins": "999999999999999"}, 1008),
        ("{user}", {"existing_key_expiry_time_mins": -5}, 1008),
    ],
)
def test_a_key_that_cannot_be_is_refused(api: Api, user: str, path: str, body: Any, code: int) -> None:
    assert api.refused("POST", f"{KEYS}/{path.format(user=user)}", body) == (code, 400)


def test_a_key_goes_by_id_or_by_itself(api: Api, array: Managed, user: str) -> None:
    path = f"{KEYS}/{user}"
    for secret in (SECRET, f"{SECRET}-2"):
        api.ok("POST", path, {"namespace": user, "secretkey": secret})
    api.ok("POST", f"{path}/deactivate", {"namespace": user, "secret_key_id": key_id(SECRET)})
    assert api.refused("POST", f"{path}/deactivate", {"secret_key_id": key_id(SECRET)}) == (1004, 400)
    with pytest.raises(Exception, match="SignatureDoesNotMatch"):
        array.client(user, SECRET).list_buckets()
    api.ok("POST", f"{path}/deactivate", {"secret_key": f"{SECRET}-2"})
    assert api.ok("GET", f"{KEYS}/exist/{user}/{user}")["secret_key_1_exist"] is False
    with pytest.raises(Exception, match=r"InvalidAccessKeyId|SignatureDoesNotMatch"):
        array.client(user, f"{SECRET}-2").list_buckets()


def test_an_old_key_ends_at_the_time_that_its_successor_sets(api: Api, array: Managed, user: str) -> None:
    path = f"{KEYS}/{user}"
    api.ok("POST", path, {"namespace": user, "secretkey": SECRET})
    api.ok("POST", path, {"secretkey": f"{SECRET}-2", "existing_key_expiry_time_mins": "60"})
    assert api.ok("GET", path)["key_expiry_timestamp_1"] > api.ok("GET", path)["key_timestamp_1"]
    array.client(user, SECRET).list_buckets()
    api.ok("POST", f"{path}/deactivate", {"secret_key": f"{SECRET}-2"})
    api.ok("POST", path, {"secretkey": f"{SECRET}-3", "existing_key_expiry_time_mins": 0})
    with pytest.raises(Exception, match="SignatureDoesNotMatch"):
        array.client(user, SECRET).list_buckets()
    array.client(user, f"{SECRET}-3").list_buckets()


def test_keys_can_be_hidden(api: Api, user: str) -> None:
    path = "/config/secretkey/hidesecretkey"
    api.ok("POST", f"{KEYS}/{user}", {"secretkey": SECRET})
    api.ok("PUT", path, {"value": True})
    try:
        assert api.ok("GET", path) == {"value": "true"}
        assert api.ok("GET", f"{KEYS}/{user}")["secret_key_1"] == ""
        assert api.refused("POST", f"{KEYS}/{user}/deactivate", {"secret_key": SECRET}) == (1005, 400)
    finally:
        api.ok("PUT", path, {"value": False})
    assert api.ok("GET", f"{KEYS}/{user}/{user}")["secret_key_1"] == SECRET


# Buckets


def test_a_bucket_reads_back_under_its_other_names(api: Api, user: str) -> None:
    body = {
        "name": "kv",
        "namespace": user,
        "owner": user,
        "vpool": groups(api)["rg2"],
        "filesystem_enabled": True,
        "head_type": "s3",
        "is_encryption_enabled": True,
        "is_stale_allowed": True,
        "is_tso_read_only": True,
        "blockSize": 10,
        "notificationSize": 8,
        "retention": 60,
        "autocommit_period": 30,
        "audited_delete_expiration": 5,
        "TagSet": [{"Key": "lab", "Value": "one"}],
    }
    assert api.ok("POST", "/object/bucket", body)["id"] == f"{user}.kv"
    found = api.ok("GET", f"/object/bucket/kv/info?namespace={user}")
    wanted = {
        "owner": user,
        "vpool": groups(api)["rg2"],
        "fs_access_enabled": True,
        "api_type": "S3",
        "is_encryption_enabled": "true",
        "is_stale_allowed": True,
        "is_tso_read_only": True,
        "block_size": 10,
        "notification_size": 8,
        "retention": 60,
        "default_retention": 60,
        "auto_commit_period": 30,
        "audit_delete_expiration": 5,
        "TagSet": [{"Key": "lab", "Value": "one"}],
        "locked": False,
        "is_empty_bucket_in_progress": False,
    }
    assert {name: found[name] for name in wanted} == wanted
    assert [b["name"] for b in api.ok("GET", f"/object/bucket?namespace={user}")["object_bucket"]] == ["kv"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, 1005),
        ({"namespace": None}, 1005),
        ({"namespace": "none"}, 1004),
        ({"name": "a..b"}, 40009),
        ({"name": "192.0.2.1"}, 40009),
        ({"owner": "nobody"}, 40010),
        ({"vpool": "urn:none"}, 1004),
        ({"blockSize": 1, "notificationSize": 2}, 1008),
        ({"retention": -2}, 1008),
        ({"head_type": "swift"}, 1008),
        ({"is_tso_read_only": True}, 1008),
        ({"autocommit_period": -5}, 1008),
        ({"search_metadata": ["x"]}, 1008),
        ({"vpool": {"a": 1}}, 1008),
        ({"is_object_lock_enabled": True}, 1007),
        ({"versioning_status": "Enabled"}, 1007),
        ({"TagSet": [{"Key": str(n), "Value": ""} for n in range(11)]}, 1031),
    ],
)
def test_a_bucket_that_cannot_be_is_refused_and_not_half_made(
    api: Api, namespace: str, body: dict[str, Any], code: int
) -> None:
    place = {"name": "kv", "namespace": namespace} if body else {}
    assert api.refused("POST", "/object/bucket", place | body) == (code, 400)
    assert api.ok("GET", f"/object/bucket?namespace={namespace}")["object_bucket"] == []


def test_names_are_unique_in_a_namespace_and_not_over_the_array(api: Api, namespace: str) -> None:
    api.ok("POST", "/object/bucket", {"name": "kv", "namespace": namespace})
    reply = api.send("POST", "/object/bucket", {"name": "kv", "namespace": namespace})
    assert (reply.status_code, reply.json()["code"]) == (400, 40008)
    assert reply.json()["description"] == '"Bucket already exists"'
    api.ok("POST", "/object/bucket", {"name": "kv", "namespace": "blue"})
    assert api.refused("GET", f"/object/bucket/none/info?namespace={namespace}") == (1004, 400)


def test_the_default_bucket_quota_of_a_namespace_is_taken(api: Api) -> None:
    name = f"ns{next(_numbers)}"
    api.ok("POST", NAMESPACES, {"namespace": name, "default_bucket_block_size": 5})
    api.ok("POST", "/object/bucket", {"name": "kv", "namespace": name})
    assert api.ok("GET", f"/object/bucket/kv/quota?namespace={name}")["blockSize"] == 5


def test_settings_of_a_bucket_are_changed_one_by_one(api: Api, user: str) -> None:
    api.ok("POST", "/object/bucket", {"name": "kv", "namespace": user, "owner": user})
    path, place, query = "/object/bucket/kv", {"namespace": user}, f"?namespace={user}"
    api.ok("PUT", f"{path}/quota", place | {"blockSize": 10, "notificationSize": -1})
    assert api.ok("GET", f"{path}/quota{query}")["blockSize"] == 10
    assert api.refused("PUT", f"{path}/quota", place | {"blockSize": -1, "notificationSize": -1}) == (
        1008,
        400,
    )
    api.ok("DELETE", f"{path}/quota{query}")
    api.ok("PUT", f"{path}/retention", place | {"period": 30})
    assert api.ok("GET", f"{path}/retention{query}")["period"] == 30
    api.ok("PUT", f"{path}/autocommit", place | {"autocommit": "20"})
    api.ok("POST", f"{path}/isstaleallowed", place | {"is_stale_allowed": "true", "is_tso_read_only": True})
    refusal = api.refused("POST", f"{path}/isstaleallowed", place | {"is_stale_allowed": "false"})
    assert refusal == (1008, 400)
    api.ok("PUT", f"{path}/auditDeleteExpiration{query}&expiration=7")
    api.ok("PUT", f"{path}/lock/true", place)
    assert api.ok("GET", f"{path}/lock{query}")["isLocked"] is True
    api.ok("PUT", f"{path}/versioning{query}", {"Status": "Suspended"})
    assert api.refused("PUT", f"{path}/versioning{query}", {"Status": "Enabled"}) == (1007, 400)
    assert api.ok("GET", f"{path}/versioning{query}")["Status"] == "Off"
    assert api.ok("GET", f"{path}/acl{query}")["acl"]["owner"] == user
    found = api.ok("GET", f"{path}/info{query}")
    assert (found["block_size"], found["retention"], found["auto_commit_period"]) == (-1, 30, 20)
    assert (found["is_stale_allowed"], found["audit_delete_expiration"]) == (True, 7)
    assert found["locked"] is True


def test_tags_of_a_bucket(api: Api, namespace: str) -> None:
    api.ok("POST", "/object/bucket", {"name": "kv", "namespace": namespace})
    path, place = "/object/bucket/kv/tags", {"namespace": namespace}
    one, two = {"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}
    assert api.refused("PUT", path, place | {"TagSet": [one]}) == (1004, 400)
    api.ok("POST", path, place | {"TagSet": [one]})
    assert api.refused("POST", path, place | {"TagSet": [one]}) == (1015, 400)
    api.ok("PUT", path, place | {"TagSet": [two]})
    assert api.ok("GET", f"/object/bucket/kv/info?namespace={namespace}")["TagSet"] == [two]
    more = [{"Key": str(n), "Value": ""} for n in range(10)]
    assert api.refused("POST", path, place | {"TagSet": more}) == (1031, 400)
    api.ok("DELETE", path, place | {"TagSet": [two]})
    assert api.refused("DELETE", path, place | {"TagSet": [two]}) == (1004, 400)
    assert api.refused("POST", path, place) == (1005, 400)


def test_everything_is_kept_over_a_restart(array: Managed, user: str) -> None:
    api = array.enter()
    api.ok("POST", f"{KEYS}/{user}", {"secretkey": SECRET})
    api.ok("POST", "/object/bucket", {"name": "kv", "namespace": user, "owner": user, "blockSize": 3})
    array.kill()
    array.start()
    assert api.refused("GET", "/user/whoami") == (4000, 401)  # tokens end with the array
    again = array.enter()
    assert again.ok("GET", f"/object/bucket/kv/info?namespace={user}")["block_size"] == 3
    array.client(user, SECRET).put_object(Bucket="kv", Key="k", Body=b"v")
    for file in array.state.glob("management.sqlite*"):
        assert file.stat().st_mode & 0o077 == 0, file
