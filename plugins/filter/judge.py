# SPDX-License-Identifier: Apache-2.0
"""Filter that judges collected facts with kvlab's checks, on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
name: judge
short_description: Judge collected facts
version_added: "0.1.0"
description:
  - Runs the named checks over facts and gives a sentence for each that does not pass.
  - A check whose facts are missing does not pass.
positional: _input
options:
  _input:
    description: Facts by topic.
    type: dict
    required: true
  ids:
    description: Ids, or prefixes of ids, of the checks to run.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Report every failure of a host at once
  ansible.builtin.assert:
    that: not __problems
    fail_msg: "{{ __problems | join('\n') }}"
  vars:
    __problems: "{{ {'host': __facts} | kvlab.lab.judge('HOST') }}"
"""

RETURN = r"""
_value:
  description: One text for each check that did not pass - id, evidence, remedy. Empty when all passed.
  type: list
  elements: str
"""

from ansible.errors import AnsibleFilterError

try:
    from kvlab import checks
except ImportError as error:
    IMPORT_ERROR = error
else:
    IMPORT_ERROR = None


def judge(facts, *ids):
    """Texts of the findings that are not a pass; `ids` are ids or prefixes of ids."""
    if IMPORT_ERROR is not None:
        raise AnsibleFilterError(
            f"judge needs the kvlab Python package beside ansible-core on the controller: {IMPORT_ERROR}. "
            "Run through ./lab, which installs both."
        )
    findings = checks.not_passed(checks.judge(facts, ids))
    return [f"{f.id}: {'; '.join(line.rstrip('.') for line in f.evidence)}. {f.remedy}" for f in findings]


class FilterModule:
    """Filters of this file."""

    def filters(self):
        """Filter names and their functions."""
        return {"judge": judge}
