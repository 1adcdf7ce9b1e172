"""What a GPU host must have for a stack: driver and packages, by version."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kvlab import checks

GOOD: dict[str, Any] = {
    "gpu_host": {
        "stack": "dell-fixed",
        "driver": "590.44.01",
        "driver_minimum": "580.65.06",
        "packages": [{"name": "libcufile-13-1", "wanted": "1.16.1.26", "status": "installed 1.16.1.26-1"}],
    }
}


def changed(**fields: Any) -> dict[str, Any]:
    facts = copy.deepcopy(GOOD)
    facts["gpu_host"] |= fields
    return facts


def package(status: str) -> list[dict[str, str]]:
    return [{"name": "libcufile-13-1", "wanted": "1.16.1.26", "status": status}]


def test_a_host_with_driver_and_packages_passes() -> None:
    findings = checks.judge(GOOD, ("GPU",))
    assert {f.id for f in findings} == {"GPU001", "GPU002"}
    assert checks.not_passed(findings) == []


@pytest.mark.parametrize(
    ("facts", "check_id", "words"),
    [
        (changed(driver="580.9.1"), "GPU001", "580.9.1; the stack dell-fixed needs 580.65.06"),
        (changed(driver=""), "GPU001", "not loaded"),
        (changed(packages=package("installed 1.9.2-1")), "GPU002", "is 1.9.2-1; the stack needs 1.16.1.26"),
        (changed(packages=package("not-installed ")), "GPU002", "libcufile-13-1 is not installed"),
        (changed(packages=package("config-files 1.16.1.26-1")), "GPU002", "is not installed"),
        (changed(packages=package("")), "GPU002", "is not installed; install 1.16.1.26"),
    ],
)
def test_what_the_host_lacks_is_named_with_what_is_wanted(
    facts: dict[str, Any], check_id: str, words: str
) -> None:
    (found,) = checks.not_passed(checks.judge(facts, ("GPU",)))
    assert (found.id, found.status) == (check_id, "fail")
    assert words in "; ".join(found.evidence)


def test_missing_facts_are_never_green() -> None:
    assert {f.status for f in checks.judge({}, ("GPU",))} == {"inconclusive"}
