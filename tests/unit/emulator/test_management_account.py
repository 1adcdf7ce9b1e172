"""Login, tokens, formats and refusals of the emulated management API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import httpx
import pytest
from emulator_helpers import free_port
from management_helpers import PASSWORD, Api, Managed

from kvlab.emulator.management.errors import ApiError
from kvlab.emulator.management.tokens import Administrator, Tokens, load_administrators
from kvlab.errors import KvlabError


@pytest.fixture(scope="module")
def array(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    running = Managed(tmp_path_factory.mktemp("array"))
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def api(array: Managed) -> Api:
    return array.enter()


def test_a_login_gives_a_token_in_a_header(array: Managed) -> None:
    reply = array.login()
    assert reply.status_code == 200
    assert reply.json() == {"user": "root"}
    assert reply.headers["X-SDS-AUTH-MAX-AGE"] == "28800"
    assert reply.headers["X-SDS-AUTH-USERNAME"] == "root"
    assert reply.headers["x-kvlab-simulated"] == "objectscale"
    assert Api(array, reply.headers["X-SDS-AUTH-TOKEN"]).ok("GET", "/user/whoami")["common_name"] == "root"


@pytest.mark.parametrize(
    ("name", "password", "words"),
    [
        ("root", "wrong", "password is wrong"),
        ("nobody", PASSWORD, "password is wrong"),
        ("shut", PASSWORD, "is locked"),
    ],
)
def test_a_login_that_is_refused_says_why(array: Managed, name: str, password: str, words: str) -> None:
    reply = array.login(name, password)
    assert reply.status_code == 401
    assert reply.json()["code"] == 4000
    assert words in reply.json()["details"]


def test_a_login_without_credentials_is_refused(array: Managed) -> None:
    with array.http() as http:
        for headers in ({}, {"Authorization": "Basic !"}, {"Authorization": "Bearer x"}):
            assert http.get("/login", headers=headers).status_code == 401


def test_an_administrator_is_unlocked(array: Managed, api: Api) -> None:
    api.ok("PUT", "/vdc/users/shut/unlock")
    assert array.login("shut").status_code == 200
    assert api.refused("PUT", "/vdc/users/nobody/unlock") == (1004, 400)


def test_nothing_answers_without_a_token(array: Managed) -> None:
    for token in ("", "made-up"):
        assert Api(array, token).refused("GET", "/object/namespaces") == (4000, 401)


def test_a_token_ends_at_logout_and_the_others_stay(array: Managed) -> None:
    first, second = array.enter(), array.enter()
    count = second.ok("GET", "/vdc/users/root/tokenCount")["count"]
    first.ok("GET", "/logout")
    assert first.refused("GET", "/user/whoami") == (4000, 401)
    assert second.ok("GET", "/vdc/users/root/tokenCount")["count"] == count - 1


def test_force_ends_every_token_of_the_user_and_nobody_elses(array: Managed, api: Api) -> None:
    mine, other = array.enter("blue-admin"), array.enter("blue-admin")
    mine.ok("GET", "/logout?force=true")
    assert other.refused("GET", "/user/whoami") == (4000, 401)
    api.ok("GET", "/user/whoami")


def test_a_system_administrator_logs_another_one_out(array: Managed, api: Api) -> None:
    other = array.enter("blue-admin")
    assert other.refused("GET", "/logout?username=root") == (3000, 403)
    api.ok("GET", "/logout?username=blue-admin")
    assert other.refused("GET", "/user/whoami") == (4000, 401)


def test_a_cookie_does_for_a_token(array: Managed) -> None:
    with array.http() as http:
        http.get("/login?using-cookies=true", auth=("root", PASSWORD))
        assert http.get("/user/whoami").status_code == 200
        http.cookies.clear()
        assert http.get("/user/whoami").status_code == 401


def test_the_reply_is_xml_unless_json_is_asked_for(array: Managed, api: Api) -> None:
    with array.http() as http:
        reply = http.get("/vdc/nodes", headers={"X-SDS-AUTH-TOKEN": api.token})
        refused = http.get("/object/namespaces/namespace/none", headers={"X-SDS-AUTH-TOKEN": api.token})
    assert reply.headers["Content-Type"] == "application/xml"
    root = ElementTree.fromstring(reply.text)
    assert (root.tag, root.findtext("node/data_ip")) == ("nodes", "127.0.0.1")
    error = ElementTree.fromstring(refused.text)
    assert (error.tag, error.findtext("code"), error.findtext("retryable")) == ("error", "1004", "false")


def test_a_request_may_be_xml(array: Managed, api: Api) -> None:
    fields = "<namespace>fromxml</namespace><is_stale_allowed>true</is_stale_allowed>"
    body = f"<namespace_create>{fields}</namespace_create>"
    headers = {"X-SDS-AUTH-TOKEN": api.token, "Content-Type": "application/xml"}
    with array.http() as http:
        reply = http.post("/object/namespaces/namespace", content=body, headers=headers)
    assert reply.status_code == 200
    assert api.ok("GET", "/object/namespaces/namespace/fromxml")["is_stale_allowed"] is True


def test_a_document_type_is_refused_in_whatever_encoding(array: Managed, api: Api) -> None:
    text = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY e "x">]><a><namespace>&e;</namespace></a>'
    headers = {"X-SDS-AUTH-TOKEN": api.token, "Accept": "application/json", "Content-Type": "application/xml"}
    for encoding in ("utf-8", "utf-16", "utf-16-be"):
        with array.http() as http:
            reply = http.post("/object/namespaces/namespace", content=text.encode(encoding), headers=headers)
        assert (reply.status_code, reply.json()["code"]) == (400, 1013)


@pytest.mark.parametrize("body", ["{", "[]", "nonsense", '"text"'])
def test_a_body_that_cannot_be_parsed_is_1013(array: Managed, api: Api, body: str) -> None:
    headers = {"X-SDS-AUTH-TOKEN": api.token, "Accept": "application/json"}
    with array.http() as http:
        reply = http.post(
            "/object/bucket", content=body, headers=headers | {"Content-Type": "application/json"}
        )
    assert (reply.status_code, reply.json()["code"]) == (400, 1013)


def test_a_body_that_is_too_long_is_1013(array: Managed, api: Api) -> None:
    assert api.refused("POST", "/object/bucket", {"name": "x" * (2 << 20)}) == (1013, 400)


def test_unknown_paths_and_methods_are_refused_in_the_apis_form(api: Api) -> None:
    assert api.refused("GET", "/no/such/path") == (2000, 404)
    assert api.refused("DELETE", "/object/namespaces") == (1007, 400)


def test_the_log_names_request_user_and_code_and_no_secret(array: Managed, api: Api) -> None:
    api.refused("GET", "/object/namespaces/namespace/none")
    last = array.management_log()[-1]
    assert (last["op"], last["path"], last["code"]) == (
        "GetNamespace",
        "/object/namespaces/namespace/none",
        1004,
    )
    assert (last["method"], last["user"], last["simulated"]) == ("GET", "root", True)
    text = json.dumps(array.management_log())
    assert PASSWORD not in text
    assert api.token not in text


@pytest.mark.parametrize(
    ("kind", "code", "retryable"),
    [
        ("busy", 6000, True),
        ("failing", 30024, False),
        ("unlicensed", 3001, False),
        ("token-expired", 4000, False),
    ],
)
def test_faults_of_the_management_api(tmp_path: Path, kind: str, code: int, retryable: bool) -> None:
    array = Managed(tmp_path)
    admin = free_port()
    array.arguments += ["--admin-port", str(admin)]
    array.start()
    try:
        api = array.enter()
        httpx.post(f"http://127.0.0.1:{admin}/faults", json={"kind": kind, "count": 1}).raise_for_status()
        array.client().create_bucket(Bucket="b")  # S3 is not struck
        error = api.send("GET", "/vdc/nodes").json()
        assert (error["code"], error["retryable"]) == (code, retryable)
        assert array.management_log()[-1]["fault"] == kind
        assert array.enter().ok("GET", "/vdc/nodes")["node"]
    finally:
        array.stop()


def test_faults_of_s3_strike_the_management_api_only_by_name(tmp_path: Path) -> None:
    array = Managed(tmp_path)
    admin = free_port()
    array.arguments += ["--admin-port", str(admin)]
    array.start()
    try:
        api, faults = array.enter(), f"http://127.0.0.1:{admin}/faults"
        httpx.post(faults, json={"kind": "reset-before"}).raise_for_status()
        api.ok("GET", "/vdc/nodes")
        named = {"kind": "reset-before", "op": "Management.ListNodes", "name": "mine"}
        httpx.post(faults, json=named).raise_for_status()
        with pytest.raises(httpx.TransportError):
            api.send("GET", "/vdc/nodes")
        api.ok("GET", "/object/namespaces")
    finally:
        array.stop()


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


BASIC = "Basic cm9vdDpw"  # root:p


def tokens() -> tuple[Tokens, Clock]:
    clock = Clock()
    return Tokens([Administrator("root", "p")], clock), clock


def test_a_user_holds_a_hundred_tokens_and_no_more() -> None:
    held, _ = tokens()
    given = [held.login(BASIC)[0] for _ in range(100)]
    with pytest.raises(ApiError, match="maximum number of tokens"):
        held.login(BASIC)
    held.logout(given[0])
    held.login(BASIC)


def test_an_unused_token_ends_after_two_hours_a_used_one_after_eight() -> None:
    held, clock = tokens()
    used, unused = held.login(BASIC)[0], held.login(BASIC)[0]
    for _ in range(4):
        clock.now += 7190
        assert held.user(used).name == "root"
    with pytest.raises(ApiError, match="expired"):
        held.user(unused)
    clock.now += 100
    with pytest.raises(ApiError, match="expired"):
        held.user(used)
    assert held.count("root") == 0


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        ('{"username": "root", "password": "p"}', 0o644, "chmod 600"),
        ("nonsense", 0o600, "are not of the form"),
        ("[]", 0o600, "are not of the form"),
        ('{"users": []}', 0o600, "name no user"),
        ('{"username": "root"}', 0o600, "are not of the form"),
        ('{"username": "root", "password": "p", "locked": 1}', 0o600, "are not of the form"),
    ],
)
def test_bad_credentials_files_are_one_sentence(tmp_path: Path, content: str, mode: int, words: str) -> None:
    file = tmp_path / "credentials.json"
    file.write_text(content)
    file.chmod(mode)
    with pytest.raises(KvlabError, match=words) as caught:
        load_administrators(file)
    assert '"p"' not in str(caught.value)


def test_a_missing_credentials_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(KvlabError, match="cannot be read"):
        load_administrators(tmp_path / "none.json")
