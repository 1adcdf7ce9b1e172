"""The checks about one transfer, on facts recorded from real NIXL transfers (fixtures/PROVENANCE.md)."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvlab.checks import judge

RECORDED = Path(__file__).parents[2] / "fixtures" / "path"
Facts = dict[str, Any]


def recorded(name: str) -> Facts:
    facts: Facts = json.loads((RECORDED / f"{name}.json").read_text())
    return facts


def statuses(facts: Facts, *ids: str) -> dict[str, str]:
    return {finding.id: finding.status for finding in judge(facts, ids)}


def changed(name: str, change: Callable[[Facts], object]) -> Facts:
    facts = copy.deepcopy(recorded(name))
    change(facts)
    return facts


@pytest.mark.parametrize("name", ["dell", "standard"])
def test_a_good_transfer_passes_every_transfer_check(name: str) -> None:
    found = statuses(recorded(name), "PATH", "DATA", "NIXL")
    assert set(found.values()) == {"pass"}, found


def test_a_transfer_that_the_endpoint_declined_fails_path_and_data() -> None:
    found = statuses(recorded("declined"), "PATH", "DATA")
    assert found == {
        "DATA001": "fail",
        "DATA002": "fail",
        "PATH001": "pass",
        "PATH002": "fail",
        "PATH003": "fail",
        "PATH004": "pass",
    }


def test_done_with_an_untouched_buffer_is_named_as_such() -> None:
    declined = recorded("declined")
    untouched = [t for t in declined["roundtrip"]["transfers"] if t["state"] == "DONE" and not t["equal"]]
    assert untouched, "the recording holds a GET that was DONE with the buffer untouched"
    declined["roundtrip"]["transfers"] = untouched
    (finding,) = judge(declined, ["DATA001"])
    assert "DONE: the buffer differs" in finding.evidence[0]


def test_without_accelerated_the_bytes_are_right_and_the_path_is_wrong() -> None:
    facts = recorded("accelerated-removed")
    assert set(statuses(facts, "DATA").values()) == {"pass"}
    assert statuses(facts, "PATH002", "PATH003") == {"PATH002": "fail", "PATH003": "fail"}


def test_a_missing_cuobject_library_is_named() -> None:
    (finding,) = judge(recorded("library-missing"), ["NIXL001"])
    assert finding.status == "fail"
    assert "needs libcuobjclient.so.1" in finding.evidence[0]
    assert "libcuobjclient-13-x" in finding.remedy


def test_an_endpoint_that_does_not_answer_is_inconclusive_for_the_plugin() -> None:
    facts = changed("dell", lambda f: f["roundtrip"].update(endpoint_error="refused"))
    assert statuses(facts, "NIXL001") == {"NIXL001": "inconclusive"}


def test_a_backend_that_cannot_be_made_fails() -> None:
    facts = changed("dell", lambda f: f["roundtrip"].update(backend_error="NIXL_ERR_BACKEND"))
    assert statuses(facts, "NIXL001") == {"NIXL001": "fail"}


def test_memory_that_the_backend_does_not_offer_fails() -> None:
    facts = changed("standard", lambda f: f["roundtrip"]["transfers"][0].update(mem_type="VRAM"))
    assert statuses(facts, "NIXL002") == {"NIXL002": "fail"}


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("guards_ok", False, "guard"),
        ("equal", False, "differs"),
        ("state", "ERR", "did not end"),
    ],
)
def test_one_bad_transfer_among_good_ones_fails_the_data_check(key: str, value: Any, words: str) -> None:
    (finding,) = judge(
        changed("dell", lambda f: f["roundtrip"]["transfers"][1].update({key: value})), ["DATA001"]
    )
    assert finding.status == "fail"
    assert words in finding.evidence[0]


def test_a_witness_with_other_bytes_fails() -> None:
    facts = changed("dell", lambda f: f["roundtrip"]["witness"].update({"nixl-4096B": "0" * 64}))
    assert statuses(facts, "DATA002") == {"DATA002": "fail"}


def test_no_witness_is_inconclusive_and_no_object_is_a_failure() -> None:
    without = changed("dell", lambda f: f["roundtrip"]["witness"].pop("nixl-4096B"))
    absent = changed("dell", lambda f: f["roundtrip"]["witness"].update({"nixl-4096B": None}))
    assert statuses(without, "DATA002") == {"DATA002": "inconclusive"}
    assert statuses(absent, "DATA002") == {"DATA002": "fail"}


def test_transfers_without_log_lines_are_inconclusive() -> None:
    facts = changed("dell", lambda f: f["path"].update(access_log=[]))
    assert statuses(facts, "PATH001", "PATH002", "PATH003") == dict.fromkeys(
        ("PATH001", "PATH002", "PATH003"), "inconclusive"
    )


def test_one_transfer_without_its_log_line_is_inconclusive() -> None:
    facts = changed("dell", lambda f: f["path"]["access_log"].pop())
    assert statuses(facts, "PATH001", "PATH002") == {"PATH001": "inconclusive", "PATH002": "inconclusive"}


def log_of(facts: Facts, op: str) -> Facts:
    found: Facts = next(r for r in facts["path"]["access_log"] if r["op"] == op)
    return found


def test_fewer_rdma_bytes_than_payload_fail() -> None:
    facts = changed("dell", lambda f: log_of(f, "PutObject").update(rdma_in=4095))
    assert statuses(facts, "PATH002") == {"PATH002": "fail"}


def test_payload_by_rdma_and_in_the_body_fails() -> None:
    facts = changed("dell", lambda f: log_of(f, "GetObject").update(body_out=4096))
    assert statuses(facts, "PATH002", "PATH003") == {"PATH002": "fail", "PATH003": "fail"}


def test_rdma_bytes_of_the_wrong_direction_do_not_count() -> None:
    facts = changed("dell", lambda f: log_of(f, "GetObject").update(rdma_out=0, rdma_in=4096))
    assert statuses(facts, "PATH002") == {"PATH002": "fail"}


def test_a_second_request_for_one_transfer_is_judged_too() -> None:
    def retry_in_the_body(facts: Facts) -> None:
        again = log_of(facts, "PutObject") | {"rdma_in": 0, "body_in": 4096}
        facts["path"]["access_log"].append(again)

    assert statuses(changed("dell", retry_in_the_body), "PATH002") == {"PATH002": "fail"}


def test_rdma_where_http_is_promised_fails() -> None:
    facts = changed("dell", lambda f: f["path"].update(expected_path="http"))
    assert statuses(facts, "PATH002") == {"PATH002": "fail"}


def test_an_unknown_promise_is_inconclusive() -> None:
    facts = changed("dell", lambda f: f["path"].update(expected_path="fast"))
    assert statuses(facts, "PATH002") == {"PATH002": "inconclusive"}


def test_a_simulated_path_fails_on_a_lab_that_says_it_is_real() -> None:
    facts = changed("dell", lambda f: f["path"].update(lab_simulated=False))
    assert statuses(facts, "PATH004") == {"PATH004": "fail"}


def test_real_evidence_on_a_real_lab_passes_and_unlabelled_evidence_is_inconclusive() -> None:
    def real(facts: Facts, label: bool | None) -> None:
        facts["path"] |= {"lab_simulated": False, "simulated": False}
        for request in facts["path"]["access_log"]:
            request["simulated"] = label

    assert statuses(changed("dell", lambda f: real(f, False)), "PATH004") == {"PATH004": "pass"}
    assert statuses(changed("dell", lambda f: real(f, None)), "PATH004") == {"PATH004": "inconclusive"}


def test_facts_with_a_missing_part_are_inconclusive_and_say_which() -> None:
    facts = changed("dell", lambda f: f["path"].pop("expected_path"))
    (finding,) = judge(facts, ["PATH002"])
    assert (finding.status, "expected_path" in finding.evidence[0]) == ("inconclusive", True)
