"""kvlab rollback: the play runs for the one host that was named, and mistakes are one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

KVLAB = Path(sys.executable).with_name("kvlab")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with an inventory of two hosts and a playbook that says which host it runs on."""
    (tmp_path / "lab.ini").write_text("[gpu_hosts]\nnode1\nnode2\n[all:vars]\nansible_connection=local\n")
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks/rollback.yml").write_text(
        "- hosts: gpu_hosts\n  gather_facts: false\n  tasks:\n"
        "    - ansible.builtin.debug: {msg: 'back on {{ inventory_hostname }}, check {{ ansible_check_mode }}'}\n"
        "    - ansible.builtin.fail: {msg: broken on purpose}\n"
        "      when: lookup('ansible.builtin.env', 'BROKEN') == '1'\n"
    )
    return tmp_path


def rollback(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    own = {"ANSIBLE_HOME": str(folder / "home"), "ANSIBLE_REMOTE_TMP": str(folder / "tmp")}
    command = [KVLAB, "rollback", *words]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=os.environ | own | environment
    )


def test_the_play_runs_on_the_host_that_was_named_alone(checkout: Path) -> None:
    done = rollback(checkout, "node2", "-i", "lab.ini", "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "back on node2, check True" in done.stdout
    assert "node1" not in done.stdout


def test_a_play_that_fails_is_no_success(checkout: Path) -> None:
    done = rollback(checkout, "node1", "-i", "lab.ini", BROKEN="1")
    assert done.returncode == 2
    assert "node1 was not brought back; the play above says why." in done.stderr


def test_an_unknown_host_and_an_unknown_inventory_are_one_sentence_each(checkout: Path) -> None:
    done = rollback(checkout, "node3", "-i", "lab.ini")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "kvlab: lab.ini has no GPU host node3; it has: node1, node2.\n"
    done = rollback(checkout, "node1", "-i", "none.ini")
    assert (
        done.stderr == "kvlab: there is no inventory none.ini; name one with -i (inventories/ holds some).\n"
    )
