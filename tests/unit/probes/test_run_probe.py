"""A probe as a program, and the content of a round trip."""

from __future__ import annotations

import ctypes
import sys

import pytest

from kvlab.errors import KvlabError
from kvlab.probes import content, nixl_roundtrip, run_probe

JOB = {"engine": "dell", "endpoint": "http://127.0.0.1:9020", "bucket": "b"}


def test_facts_come_back_with_schema_and_name() -> None:
    facts = run_probe("cuobject_library", {"library": "libc.so.6"}, sys.executable)
    assert (facts["schema"], facts["probe"], facts["error"]) == (1, "cuobject_library", None)
    assert facts["path"].endswith("libc.so.6")


def test_a_library_without_the_mark_is_not_simulated_and_a_missing_one_is_unknown() -> None:
    assert run_probe("cuobject_library", {"library": "libc.so.6"}, sys.executable)["simulated"] is False
    missing = run_probe("cuobject_library", {"library": "libnone.so.1"}, sys.executable)
    assert missing["simulated"] is None
    assert "libnone.so.1" in missing["error"]


def test_a_users_mistake_is_one_sentence_without_a_traceback() -> None:
    with pytest.raises(KvlabError, match="Engine 'warp' is unknown") as caught:
        run_probe("nixl_roundtrip", JOB | {"engine": "warp"}, sys.executable)
    assert "Traceback" not in str(caught.value)


def test_a_probe_that_takes_too_long_is_ended() -> None:
    with pytest.raises(KvlabError, match="did not finish"):
        run_probe("cuobject_library", {}, sys.executable, timeout_s=0.001)


def test_the_dell_engine_is_asked_for_by_strings_and_no_secret_is_among_the_parameters() -> None:
    params = nixl_roundtrip.backend_params(JOB)
    assert (params["accelerated"], params["type"], params["bucket"]) == ("true", "dell", "b")
    assert all(isinstance(value, str) for value in params.values())
    assert not {"access_key", "secret_key"} & set(params)


def test_a_dropped_parameter_is_gone_and_given_ones_are_kept() -> None:
    assert "accelerated" not in nixl_roundtrip.backend_params(JOB | {"drop": ["accelerated"]})
    given = nixl_roundtrip.backend_params(JOB | {"params": {"type": "dell", "bucket": "other"}})
    assert given == {"type": "dell", "bucket": "b"}


@pytest.mark.parametrize("size", [1, 4095, 4096])
def test_poison_differs_from_the_content_at_every_byte(size: int) -> None:
    expected = content.content(7, size)
    assert len(expected) == size
    assert all(a != b for a, b in zip(expected, content.poison(expected), strict=True))


def test_content_is_the_same_for_a_seed_and_another_for_another() -> None:
    assert content.content(1, 64) == content.content(1, 64)
    assert content.content(1, 64) != content.content(2, 64)


def test_an_overwritten_guard_is_seen_on_either_side() -> None:
    for at in (nixl_roundtrip.GUARD_BYTES - 1, nixl_roundtrip.GUARD_BYTES + 8):
        buffer = nixl_roundtrip.Buffer(b"12345678")
        spec = {"op": "write", "key": "k", "size": 8, "seed": 1}
        assert nixl_roundtrip.fact(spec, buffer, b"12345678")["guards_ok"]
        ctypes.memset(buffer.base + at, 0, 1)
        found = nixl_roundtrip.fact(spec, buffer, b"12345678")
        assert (found["guards_ok"], found["equal"]) == (False, True)
