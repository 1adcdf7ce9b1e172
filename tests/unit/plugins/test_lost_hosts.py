"""What a run says at its end of the hosts that did not get there, by real runs of ansible-playbook."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
HEAD = "HOSTS THAT WERE LOST ON THE WAY"
PLAY = """
- hosts: all
  gather_facts: false
  connection: local
  vars: {ansible_python_interpreter: "%s"}
  tasks:
%s
"""


def ends(tmp_path: Path, tasks: str) -> str:
    """The output after the recap, of a play with these tasks on the hosts good and bad."""
    play = tmp_path / "play.yml"
    play.write_text(PLAY % (sys.executable, tasks))
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "good,bad", str(play)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "PLAY RECAP" in done.stdout, done.stdout + done.stderr
    return done.stdout.rpartition("PLAY RECAP")[2]


def test_a_host_is_named_with_task_and_reason_of_the_item_that_failed(tmp_path: Path) -> None:
    told = ends(
        tmp_path,
        """
    - name: See that it is healthy
      ansible.builtin.assert:
        that: item != 2 or inventory_hostname == 'good'
        fail_msg: "{{ inventory_hostname }} has fault {{ item }};\\n mend it."
      loop: [1, 2, 3]
""",
    )
    assert HEAD in told
    assert "bad: failed at 'See that it is healthy': bad has fault 2; mend it" in told
    assert "good:" not in told
    assert "1 of 2 hosts went to the end." in told


def test_a_command_that_fails_is_told_by_what_it_wrote(tmp_path: Path) -> None:
    told = ends(
        tmp_path,
        """
    - name: Ask it
      ansible.builtin.command: {argv: [sh, -c, 'echo no such port >&2; exit 3']}
      when: inventory_hostname == 'bad'
""",
    )
    assert "bad: failed at 'Ask it': " in told
    assert "non-zero return code: no such port" in told


def test_a_secret_in_the_reason_stays_unsaid(tmp_path: Path) -> None:
    told = ends(
        tmp_path,
        """
    - name: Use the key
      ansible.builtin.fail: {msg: hunter2}
      no_log: true
      when: inventory_hostname == 'bad'
""",
    )
    assert "bad: failed at 'Use the key': the reason holds a secret and is not shown" in told
    assert "hunter2" not in told


def test_a_host_that_was_rescued_or_whose_failure_is_ignored_is_not_lost(tmp_path: Path) -> None:
    told = ends(
        tmp_path,
        """
    - name: Try
      block:
        - ansible.builtin.fail: {msg: first}
      rescue:
        - ansible.builtin.debug: {msg: second}
    - name: Try again
      ansible.builtin.fail: {msg: third}
      ignore_errors: true
""",
    )
    assert HEAD not in told
