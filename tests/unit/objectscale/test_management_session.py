"""The token's file: private, shared by a play, taken up after a kill, gone after logout."""

from __future__ import annotations

import dataclasses
import json
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from management_array import ACCESS, Array, error

from kvlab.errors import KvlabError
from kvlab.objectscale.errors import BusyError, LoginRefusedError
from kvlab.objectscale.session import Session, SessionFile

HOUR = 3600.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "session"


def leave(path: Path, array: Array, **differing: Any) -> Session:
    """What a killed run leaves behind: a session whose token is good."""
    left = Session(
        ACCESS.address, ACCESS.username, "token-left", time.time() - HOUR, 8 * HOUR, {"rg1": "urn:1"}
    )
    left = dataclasses.replace(left, **differing)
    array.tokens.append(left.token)
    path.parent.mkdir(exist_ok=True)
    SessionFile(path).save(left)
    return left


def use(array: Array, path: Path) -> None:
    with array.management(SessionFile(path)) as api:
        api.read("/vdc/nodes", "nodes")


def test_one_login_serves_several_runs_until_logout(array: Array, path: Path) -> None:
    use(array, path)
    use(array, path)
    assert array.asked == ["GET /login", "GET /vdc/nodes", "GET /vdc/nodes"]
    with array.management(SessionFile(path)) as api:
        assert api.logout()
    assert (array.tokens, path.exists()) == ([], False)


def test_only_the_owner_can_read_the_token_and_it_is_the_only_secret_there(array: Array, path: Path) -> None:
    use(array, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [p.name for p in path.parent.iterdir()] == ["session"]
    assert ACCESS.password not in path.read_text()


def test_logout_without_a_session_asks_nothing(array: Array, path: Path) -> None:
    with array.management(SessionFile(path)) as api:
        assert not api.logout()
    assert array.asked == []


def test_the_file_goes_even_if_the_array_fails_at_logout(array: Array, path: Path) -> None:
    use(array, path)
    array.tell("GET /logout", error(500, 30024))
    with array.management(SessionFile(path)) as api, pytest.raises(BusyError):
        api.logout()
    assert not path.exists()


def test_what_a_killed_run_left_is_taken_up(array: Array, path: Path) -> None:
    leave(path, array)
    use(array, path)
    assert array.asked == ["GET /vdc/nodes"]


@pytest.mark.parametrize(
    "differing",
    [{"username": "other"}, {"made": time.time() - 8 * HOUR}, {"made": time.time() + HOUR}],
    ids=["another user's", "too old", "from the future"],
)
def test_a_left_token_that_is_not_taken_up_is_given_back(
    array: Array, path: Path, differing: dict[str, Any]
) -> None:
    leave(path, array, **differing)
    use(array, path)
    assert array.asked == ["GET /logout", "GET /login", "GET /vdc/nodes"]
    assert "token-left" not in array.tokens


def test_a_token_of_another_array_is_not_shown_to_this_one(array: Array, path: Path) -> None:
    leave(path, array, address="https://elsewhere:4443")
    use(array, path)
    assert array.asked == ["GET /login", "GET /vdc/nodes"]


def test_a_left_token_that_the_array_has_ended_means_one_login(array: Array, path: Path) -> None:
    left = leave(path, array)
    array.tokens.clear()
    use(array, path)
    assert array.asked == ["GET /vdc/nodes", "GET /login", "GET /vdc/nodes"]
    now = SessionFile(path).load()
    assert now is not None
    assert now.token != left.token
    assert now.replication_groups == left.replication_groups


def test_two_runs_that_share_a_file_share_the_login(array: Array, path: Path) -> None:
    """Both find no file; the lock makes the second wait for the first's."""
    runs = [threading.Thread(target=use, args=(array, path)) for _ in range(4)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert array.asked.count("GET /login") == 1
    assert array.calls == ["GET /vdc/nodes"] * 4


def test_a_play_whose_login_another_one_ended_goes_on_with_a_new_one(array: Array, path: Path) -> None:
    with array.management(SessionFile(path)) as one, array.management(SessionFile(path)) as other:
        one.read("/vdc/nodes", "nodes")
        other.read("/vdc/nodes", "nodes")
        other.logout()
        one.read("/vdc/nodes", "nodes")
        one.logout()
    assert array.tokens == []


def test_a_run_takes_up_the_login_that_another_has_made_anew(array: Array, path: Path) -> None:
    with array.management(SessionFile(path)) as one, array.management(SessionFile(path)) as other:
        one.login(), other.login()
        array.tokens.clear()
        one.read("/vdc/nodes", "nodes")
        other.read("/vdc/nodes", "nodes")
    assert array.asked.count("GET /login") == 2


def test_a_refused_login_leaves_no_file(array: Array, path: Path) -> None:
    array.tell("GET /login", error(401, 4000))
    with array.management(SessionFile(path)) as api, pytest.raises(LoginRefusedError):
        api.login()
    assert not path.exists()


def test_a_file_that_others_can_read_is_refused(array: Array, path: Path) -> None:
    leave(path, array)
    path.chmod(0o644)
    with pytest.raises(KvlabError, match="others can reach .*session"):
        use(array, path)


@pytest.mark.parametrize("content", ["", "{", "[]", json.dumps({"token": "x"})])
def test_a_file_that_is_no_session_is_refused(array: Array, path: Path, content: str) -> None:
    leave(path, array)
    path.write_text(content)
    with pytest.raises(KvlabError, match="is not a session file; remove it"):
        use(array, path)


def test_a_folder_that_cannot_be_made_is_a_sentence(array: Array, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(KvlabError, match="name another session_file"):
        use(array, tmp_path / "file" / "session")


def test_the_token_is_not_in_what_is_printed(array: Array, path: Path) -> None:
    assert "token-left" not in repr(leave(path, array))
