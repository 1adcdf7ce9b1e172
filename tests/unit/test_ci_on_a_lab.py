"""ci/hardware and ci/nightly with stand-ins for what they call: what they do in which order, and when they end red."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

WRITE_RESULT = 'import json, sys; open(json.loads(sys.argv[1])["kvlab_ttft_output"], "w").write("{}")'
PIPELINE = ("CI", "GITHUB", "BUILD_", "KVLAB")  # what variables of a pipeline begin with

PROGRAMS = {
    "ansible-playbook": """
        case "$*" in
            *lock.yml*"nightly"* | *lock.yml*"hardware"*) exit "${LOCK:-0}" ;;
            *site.yml*"kvlab_stack=${BROKEN_STACK:-none}"*) exit 2 ;;
            *ttft.yml*) python -c "$WRITE_RESULT" "$5" ;;
        esac""",
    "kvlab": """
        case "$*" in
            "gate compare"*--across*) echo "{}"; exit "${GATE_NEXT:-0}" ;;
            "gate compare"*) echo "{}"; exit "${GATE:-0}" ;;
            "facts collect"*) echo "{}" >"$6"; exit "${FACTS:-0}" ;;
            "doctor"*) echo "{}"; exit "${DOCTOR:-0}" ;;
            "junit merge"*) cp "$3" "$5" ;;
        esac""",
    "pytest": """
        for word in "$@"; do case $word in --junit-xml=*) echo "<x/>" >"${word#*=}" ;; esac; done
        [ -z "${KILLED:-}" ] || kill -TERM "$PPID"
        exit "${PYTEST:-0}\"""",
    "python": f"""
        exec '{sys.executable}' "$@" """,
}


@dataclass
class Checkout:
    """A folder with the scripts and the stand-ins; `calls` are the stand-ins' command lines of the last run."""

    folder: Path
    calls: list[str] = field(default_factory=list)
    output: str = ""

    def run(self, script: str, *arguments: str, **environment: str) -> int:
        log = self.folder / "calls"
        log.write_text("")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(PIPELINE)}
        done = subprocess.run(
            [self.folder / "ci" / script, "lab-inventory", *arguments],
            cwd=self.folder,
            env=clean | {"CALLS": str(log), "WRITE_RESULT": WRITE_RESULT} | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        self.calls = log.read_text().splitlines()
        self.output = done.stdout + done.stderr
        return done.returncode

    def called(self, words: str) -> list[str]:
        return [call for call in self.calls if words in call]

    @property
    def history(self) -> set[str]:
        return {path.name[:4] for path in (self.folder / ".lab/history").glob("*.json")}

    @property
    def accepted(self) -> str:
        file = self.folder / ".lab/history/accepted-stack"
        return file.read_text().strip() if file.exists() else ""


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    for folder in ("ci", ".venv/bin", "stacks", "lab-inventory", ".lab/history"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("lab.sh", "hardware", "nightly"):
        shutil.copy(ROOT / "ci" / name, tmp_path / "ci")
    (tmp_path / "stacks/new.yml").touch()
    (tmp_path / "plan.yml").touch()
    (tmp_path / ".lab/history/old.json").write_text("{}")
    files = {tmp_path / "lab": ""} | {tmp_path / ".venv/bin" / name: text for name, text in PROGRAMS.items()}
    for file, text in files.items():
        tell = 'echo "$(basename "$0") $*" >>"$CALLS"' if text and file.name != "python" else ""
        file.write_text(f"#!/bin/sh\n{tell}\n{text}\n")
        file.chmod(0o755)
    return Checkout(tmp_path)


def test_a_lab_is_held_brought_up_proved_and_freed_in_this_order(checkout: Checkout) -> None:
    assert checkout.run("hardware") == 0, checkout.output
    order = [
        checkout.calls.index(checkout.called(words)[0])
        for words in ("/lock.yml", "site.yml", "pytest", "/unlock.yml")
    ]
    assert order == sorted(order)
    assert "--require-hardware" in checkout.called("pytest")[0]
    assert not checkout.called("logs.yml")
    assert (checkout.folder / ".cache/artifacts/hardware/junit.xml").exists()


@pytest.mark.parametrize(
    ("trouble", "status"),
    [({"PYTEST": "1"}, 1), ({"DOCTOR": "1"}, 1), ({"DOCTOR": "2"}, 2), ({"KILLED": "1"}, 143)],
)
def test_what_is_not_proven_is_not_green_and_leaves_logs_and_a_free_lab(
    trouble: dict[str, str], status: int, checkout: Checkout
) -> None:
    assert checkout.run("hardware", **trouble) == status, checkout.output
    assert checkout.called("/logs.yml")
    assert checkout.called("/unlock.yml")


@pytest.mark.parametrize("script", ["hardware", "nightly"])
def test_a_lab_that_somebody_else_holds_is_left_alone(script: str, checkout: Checkout) -> None:
    others = checkout.folder / ".cache/artifacts" / script / "of-the-run-that-holds-it"
    others.parent.mkdir(parents=True)
    others.touch()
    assert checkout.run(script, "plan.yml", LOCK="2") == 2
    assert not checkout.called("site.yml")
    assert not checkout.called("/logs.yml"), "the logs are those of the other's run"
    assert not checkout.called("pytest")
    assert others.exists()


def test_whoever_holds_it_is_named_whole(checkout: Checkout) -> None:
    name = """https://ci.example.org/a'b"c d"""
    checkout.run("hardware", CI_JOB_URL=name)
    for call in (*checkout.called("/lock.yml"), *checkout.called("/unlock.yml")):
        given = json.loads(call[call.index("{") :])
        assert given["kvlab_lock_holder"] == name


def test_a_history_with_nothing_in_it_is_inconclusive_and_begun(checkout: Checkout) -> None:
    (checkout.folder / ".lab/history/old.json").unlink()
    assert checkout.run("nightly", "plan.yml") == 3
    assert "inconclusive" in checkout.output
    assert checkout.history == {"now-"}
    assert checkout.called("kvlab report")


@pytest.mark.parametrize(("gate", "kept"), [("0", True), ("1", False), ("2", False), ("3", True)])
def test_a_slow_or_unusable_night_does_not_become_the_measure_of_the_next(
    gate: str, kept: bool, checkout: Checkout
) -> None:
    assert checkout.run("nightly", "plan.yml", GATE=gate) == int(gate), checkout.output
    assert ("now-" in checkout.history) is kept
    # kvlab report refuses a run that is named twice.
    assert ("nightly/now-" in checkout.called("kvlab report")[0]) is not kept
    assert "--gate" in checkout.called("kvlab report")[0]
    assert "--findings" in checkout.called("kvlab report")[0]


def test_an_unproven_pass_is_red_whatever_the_gate_says(checkout: Checkout) -> None:
    assert checkout.run("nightly", "plan.yml", PYTEST="1") == 1


def test_the_next_stack_stays_only_where_the_gate_says_pass(checkout: Checkout) -> None:
    assert checkout.run("nightly", "plan.yml", "new") == 0, checkout.output
    assert checkout.accepted == "new"
    assert checkout.history == {"old.", "now-", "next"}
    assert [call.endswith("kvlab_stack=new") for call in checkout.called("site.yml")] == [False, True]
    # A stack is compared with another on purpose: neither its name nor its versions make two environments of them.
    (across,) = [call for call in checkout.called("--across") if "--json" in call]
    assert "--across lab.stack --across versions" in across
    for script in ("hardware", "nightly"):
        checkout.run(script, "plan.yml")
        assert checkout.called("site.yml")[0].endswith("kvlab_stack=new"), (
            "it is this lab's stack from now on"
        )


@pytest.mark.parametrize(
    ("trouble", "status"), [({"GATE_NEXT": "1"}, 1), ({"GATE_NEXT": "3"}, 3), ({"BROKEN_STACK": "new"}, 2)]
)
def test_any_other_verdict_brings_the_old_stack_back(
    trouble: dict[str, str], status: int, checkout: Checkout
) -> None:
    assert checkout.run("nightly", "plan.yml", "new", **trouble) == status, checkout.output
    assert checkout.accepted == ""
    assert "next" not in checkout.history
    assert [call.endswith("kvlab_stack=new") for call in checkout.called("site.yml")] == [False, True, False]
    judged = "gate-next.json" if "GATE_NEXT" in trouble else "gate.json"
    assert judged in checkout.called("kvlab report")[0]


@pytest.mark.parametrize(
    ("script", "words", "told"),
    [
        ("nightly", ["nowhere.yml"], "name a plan"),
        ("nightly", ["plan.yml", "nothing"], "there is no stacks/nothing.yml"),
    ],
)
def test_what_is_not_there_is_said_before_the_lab_is_held(
    script: str, words: list[str], told: str, checkout: Checkout
) -> None:
    assert checkout.run(script, *words) == 2
    assert told in checkout.output
    assert not checkout.calls


@pytest.mark.parametrize("given", [["--inventory", "inventories/local"], ["--inventory=inventories/local"]])
def test_the_suite_knows_its_options_however_they_are_written(given: list[str]) -> None:
    command = [sys.executable, "-m", "pytest", *given, "--require-hardware", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--require-hardware" in done.stdout
