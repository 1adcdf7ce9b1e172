"""One login, tokens that end, refusals by code, retries and broken connections."""

from __future__ import annotations

import dataclasses
from typing import Any

import httpx
import pytest
from management_array import ACCESS, Array, error

from kvlab.objectscale import errors
from kvlab.objectscale.management import Management
from kvlab.objectscale.plan import Call
from kvlab.objectscale.wire import PAUSES, Wire

NODES = "GET /vdc/nodes"
READ = Call("GET", "/vdc/nodes", "nodes")
POST = Call("POST", "/object/users", "object user kvlab", {"user": "kvlab"})
TO_LOGIN = httpx.Response(302, headers={"Location": "https://array.example:4443/login?service=x"})


def sentence(array: Array, call: Call = READ, kind: type[Exception] = errors.ManagementError) -> str:
    with array.management() as api, pytest.raises(kind) as raised:
        api.send(call)
    return str(raised.value)


def test_all_requests_share_one_login_that_ends_with_the_client(array: Array) -> None:
    with array.management() as api:
        api.send(READ)
        api.send(READ)
    assert array.asked == ["GET /login", NODES, NODES, "GET /logout"]
    assert array.tokens == []


def test_the_login_ends_also_when_the_work_fails(array: Array) -> None:
    array.tell(NODES, error(403, 3000))
    sentence(array, kind=errors.ForbiddenError)
    assert array.asked[-1] == "GET /logout"


@pytest.mark.parametrize(
    "expired", [error(401, 4000, "Invalid token"), TO_LOGIN], ids=["401", "302 to login"]
)
def test_a_token_that_ended_means_one_new_login(array: Array, expired: httpx.Response) -> None:
    array.expired = expired
    array.tell(NODES, {"node": []})
    with array.management() as api:
        api.send(READ)
        array.tokens.clear()
        assert api.send(READ) == {"node": []}
    assert array.asked.count("GET /login") == 2


def test_a_redirect_to_elsewhere_is_no_ended_token(array: Array) -> None:
    array.tell(NODES, httpx.Response(302, headers={"Location": "https://portal.example/start"}))
    assert "it points elsewhere; correct host and port" in sentence(array, kind=errors.UnsupportedError)
    assert array.asked.count("GET /login") == 1


def test_a_post_is_repeated_after_the_new_login_for_it_was_not_done(array: Array) -> None:
    with array.management() as api:
        api.login()
        array.tokens.clear()
        api.send(POST)
    assert array.calls == ["POST /object/users"] * 2
    assert array.bodies[-2] == POST.body


def test_a_new_token_that_is_refused_too_is_not_a_reason_to_log_in_for_ever(array: Array) -> None:
    array.tell(NODES, error(401, 4000))
    assert "refuses the token that it has just given" in sentence(array, kind=errors.LoginRefusedError)
    assert array.asked.count("GET /login") == 2


@pytest.mark.parametrize(
    ("status", "code", "kind", "remedy"),
    [
        (400, 1002, errors.InvalidError, "correct the value"),
        (400, 1004, errors.NotFoundError, "make that first"),
        (400, 1005, errors.InvalidError, "give the value"),
        (405, 1007, errors.UnsupportedError, "is needed"),
        (400, 1008, errors.InvalidError, "correct the value"),
        (400, 1013, errors.InvalidError, "correct the value"),
        (400, 1015, errors.ExistsError, "the name is taken"),
        (404, 1019, errors.NotFoundError, "make that first"),
        (400, 1020, errors.InUseError, "remove first"),
        (400, 1025, errors.InUseError, "remove first"),
        (403, 1026, errors.ForbiddenError, "administrator"),
        (400, 1031, errors.LimitError, "remove one first"),
        (404, 2000, errors.NotFoundError, "make that first"),
        (403, 3000, errors.ForbiddenError, "administrator"),
        (403, 3001, errors.LicenceError, "valid licence"),
        (503, 6000, errors.BusyError, "run again"),
        (500, 30024, errors.BusyError, "run again"),
        (503, 30026, errors.BusyError, "run again"),
        (400, 40008, errors.ExistsError, "the name is taken"),
        (409, 40008, errors.ExistsError, "the name is taken"),
        (400, 40009, errors.InvalidError, "correct the bucket's name"),
        (400, 40010, errors.InvalidError, "make the owner first"),
        (400, 40011, errors.InvalidError, "another replication group"),
        (400, 40012, errors.InvalidError, "another replication group"),
        (400, 40013, errors.InvalidError, "no storage"),
        (400, 77777, errors.InvalidError, "correct the value"),
        (500, 5001, errors.BusyError, "run again"),
    ],
)
def test_a_refusal_is_told_by_its_code_with_what_to_do(
    array: Array, status: int, code: int, kind: type[Exception], remedy: str
) -> None:
    array.tell("POST /object/users", error(status, code, "the array's words"))
    said = sentence(array, POST, kind)
    assert said.startswith(
        "object user kvlab: ObjectScale at https://array.example:4443 answers the array's words"
    )
    assert f"(code {code})" in said
    assert remedy in said


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, {"Code": "NoSuchEntity", "Message": "no"}, errors.NotFoundError),
        (409, {"Error": {"Code": "EntityAlreadyExists", "Message": "no"}}, errors.ExistsError),
        (409, {"ErrorResponse": {"Error": {"Code": "DeleteConflict"}}}, errors.InUseError),
        (409, {"Code": "LimitExceeded"}, errors.LimitError),
        (403, {"Code": "AccessDenied"}, errors.ForbiddenError),
        (400, {"Code": "MalformedPolicyDocument"}, errors.InvalidError),
    ],
)
def test_iam_refuses_in_words_of_its_own(
    array: Array, status: int, body: dict[str, Any], kind: type[Exception]
) -> None:
    array.tell("POST /iam", httpx.Response(status, json=body))
    sentence(array, Call("POST", "/iam", "IAM user x"), kind)


def test_a_refusal_without_a_body_is_told_by_its_status(array: Array) -> None:
    array.tell(NODES, httpx.Response(403, text="<html>no</html>"))
    assert "answers HTTP 403; use a system administrator" in sentence(array, kind=errors.ForbiddenError)


def test_absent_is_only_what_the_array_calls_so(array: Array) -> None:
    array.tell(NODES, error(400, 1004), error(404, 2000), error(400, 1019), httpx.Response(404))
    with array.management() as api:
        assert [api.find("/vdc/nodes", "nodes") for _ in range(4)] == [None] * 4
        array.tell(NODES, error(400, 1008))
        with pytest.raises(errors.InvalidError):
            api.find("/vdc/nodes", "nodes")


def test_what_the_array_calls_retryable_is_tried_again_after_growing_pauses(array: Array) -> None:
    busy = error(503, 6000, retryable=True)
    array.tell("POST /object/users", busy, busy, {"link": {}})
    with array.management() as api:
        assert api.send(POST) == {"link": {}}
    assert array.slept == list(PAUSES[:2])


def test_trying_again_has_a_limit(array: Array) -> None:
    array.tell(NODES, error(503, 6000, "busy", retryable=True))
    assert "busy (code 6000); run again" in sentence(array, kind=errors.BusyError)
    assert array.slept == list(PAUSES)
    assert array.calls == [NODES] * (len(PAUSES) + 1)


def test_a_failure_that_is_not_called_retryable_is_tried_once(array: Array) -> None:
    array.tell(NODES, error(500, 30024), {"node": []})
    sentence(array, kind=errors.BusyError)
    assert array.slept == []


@pytest.mark.parametrize("broken", [httpx.ReadError("reset"), httpx.RemoteProtocolError("closed")])
def test_a_read_whose_connection_broke_is_tried_again(array: Array, broken: Exception) -> None:
    array.tell(NODES, broken, {"node": []})
    with array.management() as api:
        assert api.send(READ) == {"node": []}
    assert array.slept == [PAUSES[0]]


def test_a_post_whose_connection_broke_is_not_sent_twice_for_it_may_have_been_done(array: Array) -> None:
    array.tell("POST /object/users", httpx.ReadError("reset"))
    assert "broke (reset); run again, what was done is found then" in sentence(
        array, POST, errors.UnreachableError
    )
    assert array.calls == ["POST /object/users"]


def test_silence_is_told_with_its_limit(array: Array) -> None:
    array.tell(NODES, httpx.ReadTimeout("slow"))
    assert "gave no answer within 30 s" in sentence(array, kind=errors.UnreachableError)


def test_a_reply_that_is_no_json_is_not_taken_for_an_empty_one(array: Array) -> None:
    array.tell(NODES, httpx.Response(200, text="<nodes/>"))
    assert "something else than a JSON document" in sentence(array, kind=errors.UnsupportedError)


def test_json_is_asked_for_and_never_xml() -> None:
    seen: list[httpx.Headers] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers)
        return httpx.Response(200, headers={"X-SDS-AUTH-TOKEN": "t"})

    with Management(ACCESS, transport=httpx.MockTransport(answer)) as api:
        api.send(POST)
    assert {headers["Accept"] for headers in seen} == {"application/json"}
    assert seen[1]["Content-Type"] == "application/json"
    assert seen[1]["X-SDS-AUTH-TOKEN"] == "t"
    assert "Authorization" not in seen[1]


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (error(401, 4000, "Invalid credentials"), errors.LoginRefusedError, "name or password is wrong"),
        (error(401, 4000, "User is locked"), errors.LoginRefusedError, "is locked; let an administrator"),
        (error(403, 3000, "The account is locked out"), errors.LoginRefusedError, "is locked"),
        (error(401, 4000, "Maximum number of tokens exceeded"), errors.LimitError, "two hours"),
        (error(403, 3001, "License check failed"), errors.LicenceError, "valid licence"),
        (error(403, 3000, "no access"), errors.ForbiddenError, "no access"),
        (error(503, 6000, "starting"), errors.BusyError, "run again"),
        (httpx.Response(404), errors.UnsupportedError, "no management API of ObjectScale 4.x or ECS 3.8"),
        (httpx.Response(200, text="<html>"), errors.UnsupportedError, "correct host and port"),
        (
            httpx.Response(401, json={"http_status_code": 401, "messages": [{"code": "x", "message": "no"}]}),
            errors.UnsupportedError,
            "ObjectScale 1.x on Kubernetes is not supported",
        ),
    ],
)
def test_a_refused_login_says_what_it_means(
    array: Array, answer: httpx.Response, kind: type[Exception], words: str
) -> None:
    array.tell("GET /login", answer)
    assert words in sentence(array, kind=kind)


def test_a_wrong_password_is_tried_once_and_not_shown(array: Array) -> None:
    wrong = dataclasses.replace(ACCESS, password="wrong-password")
    with array.management(access=wrong) as api, pytest.raises(errors.LoginRefusedError) as raised:
        api.send(READ)
    assert "user admin at https://array.example:4443" in str(raised.value)
    assert array.asked == ["GET /login"]
    assert "wrong-password" not in f"{raised.value} {wrong} {raised.value!r}"


def test_logout_is_never_forced(array: Array) -> None:
    array.management().login()
    with array.management() as api:
        api.send(READ)
    assert len(array.tokens) == 1
    assert not [line for line in array.asked if "force" in line]


def test_a_logout_that_comes_too_late_is_no_error(array: Array) -> None:
    with array.management() as api:
        api.send(READ)
        array.tokens.clear()


def test_the_body_of_a_call_is_not_in_what_is_printed() -> None:
    assert "not-a-secret" not in repr(Call("POST", "/x", "x", {"secretkey": "not-a-secret"}))


def test_an_address_of_ipv6_is_put_in_brackets() -> None:
    assert dataclasses.replace(ACCESS, host="fd00::1").address == "https://[fd00::1]:4443"


def test_a_ca_bundle_that_is_not_there_is_a_sentence() -> None:
    with pytest.raises(errors.KvlabError, match="give a file of PEM certificates by ca_path"):
        Wire(dataclasses.replace(ACCESS, ca_path="/nowhere/ca.pem"))
