#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: pins of one owner in apt's preferences, and packages on hold."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: apt_pin
short_description: Pin packages to versions or repositories, and hold them
version_added: "0.1.0"
description:
  - Keeps one preferences file for each owner, so that a repository's own pin file and other people's stay as they are.
  - Reads afterwards what apt would install, and reports where that is not the pinned version. apt itself is silent when
    a pin names a version that no repository has, and takes another.
options:
  name:
    description: Whose pins these are; the file is 90-NAME.pref.
    type: str
    required: true
  pins:
    description:
      - All pins of this owner; without any, its file goes.
      - Each has exactly one of I(version), I(origin) and I(release).
    type: list
    elements: dict
    default: []
    suboptions:
      packages:
        description: Package names, or patterns such as mft*.
        type: list
        elements: str
        required: true
      version:
        description: The version, or a pattern such as 590.48.*.
        type: str
      origin:
        description: Host name of the repository, such as developer.download.nvidia.com.
        type: str
      release:
        description: Properties of the repository's Release file, such as o=NVIDIA.
        type: str
      priority:
        description: Above 1000 goes back to an older version too; below 0 is never installed.
        type: int
        default: 1001
      explanation:
        description: Why; it stands in the file.
        type: str
  holds:
    description: Packages to hold, or with I(state) absent to release.
    type: list
    elements: str
    default: []
  state:
    description: Whether the owner's file and the holds are to be there.
    type: str
    choices: [present, absent]
    default: present
  preferences_folder:
    description: Folder of apt's preferences.
    type: path
    default: /etc/apt/preferences.d
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Keep the driver on its branch, and MFT from DOCA's repository
  kvlab.lab.apt_pin:
    name: kvlab
    pins:
      - packages: [nvidia-open, nvidia-fabricmanager]
        version: 590.48.*
        explanation: fabric manager must be exactly the driver's version
      - packages: [mft*]
        origin: linux.mellanox.com
        priority: 900
    holds: [linux-image-generic]
  register: __nvidia_driver_pins
"""

RETURN = r"""
path:
  description: The owner's preferences file.
  type: str
  returned: always
held:
  description: Packages that this run has put on hold.
  type: list
  elements: str
  returned: always
released:
  description: Packages that this run has released.
  type: list
  elements: str
  returned: always
policy:
  description:
    - What apt would do with each package that a pin names in full, after the change. By name, with C(installed),
      C(candidate) and C(versions). In check mode it is the state before.
  type: dict
  returned: always
problems:
  description: The sentences that the module warns with, for version pins that apt would not follow.
  type: list
  elements: str
  returned: always
"""

import re
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import apt_policy

PIN_SPEC = {
    "packages": {"type": "list", "elements": "str", "required": True},
    "version": {"type": "str"},
    "origin": {"type": "str"},
    "release": {"type": "str"},
    "priority": {"type": "int", "default": 1001},
    "explanation": {"type": "str"},
}


def apt(module, *words):
    """Output of one of apt's commands in English; raises PinError when it is missing or fails."""
    path = module.get_bin_path(words[0])
    if path is None:
        raise apt_policy.PinError(f"{words[0]} is not on this host; apt_pin is for Debian and Ubuntu")
    status, out, complaint = module.run_command([path, *words[1:]], environ_update={"LC_ALL": "C"})
    if status:
        said = " ".join((complaint or out).split())
        raise apt_policy.PinError(f"{' '.join(words)} ended with {status}: {said or 'no word why'}")
    return out


def ensure_file(module, path, after):
    """The owner's file as wanted, None for absent; returns whether it changed, and the diff."""
    before = path.read_text() if path.is_file() else None
    if before != after and not module.check_mode:
        if after is None:
            path.unlink()
        else:
            aside = Path(module.tmpdir, path.name)
            aside.write_text(after)
            aside.chmod(0o644)
            module.atomic_move(str(aside), str(path))
    headers = {"before_header": str(path), "after_header": str(path)}
    return before != after, {"before": before or "", "after": after or "", **headers}


def ensure_holds(module, names, hold):
    """Packages held, or not; returns those that were not so, and the diff."""
    if not names:
        return [], []
    held = apt(module, "apt-mark", "showhold").split()
    wrong = [name for name in dict.fromkeys(names) if (name in held) != hold]
    if wrong and not module.check_mode:
        apt(module, "apt-mark", "hold" if hold else "unhold", *wrong)
    after = sorted({*held, *wrong} if hold else set(held) - set(wrong))
    texts = ["".join(f"{name}\n" for name in some) for some in (sorted(held), after)]
    headers = {"before_header": "packages on hold", "after_header": "packages on hold"}
    return wrong, [{"before": texts[0], "after": texts[1], **headers}] if wrong else []


def main():
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "pins": {"type": "list", "elements": "dict", "default": [], "options": PIN_SPEC},
            "holds": {"type": "list", "elements": "str", "default": []},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "preferences_folder": {"type": "path", "default": "/etc/apt/preferences.d"},
        },
        supports_check_mode=True,
    )
    given = module.params
    present = given["state"] == "present"
    pins = given["pins"] if present else []
    # apt skips files whose names have other characters, in silence.
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", given["name"]):
        module.fail_json(msg=f"name {given['name']!r} is no file name for apt; use letters, digits, - and _")
    path = Path(given["preferences_folder"], f"90-{given['name']}.pref")
    try:
        text = apt_policy.render(given["name"], pins) if pins else None
        if not path.parent.is_dir():
            raise apt_policy.PinError(f"{path.parent} is no folder; set preferences_folder to apt's")
        changed, diff = ensure_file(module, path, text)
        marked, hold_diff = ensure_holds(module, given["holds"], present)
        names = sorted({name for pin in pins for name in pin["packages"] if not re.search(r"[*?\[/]", name)})
        policy = apt_policy.parse_policy(apt(module, "apt-cache", "policy", *names)) if names else {}
    except (apt_policy.PinError, OSError) as error:
        module.fail_json(msg=f"the pins of {given['name']} cannot be set: {error}")
    problems = []
    # What check mode would write is not in force, so apt cannot be asked about it.
    if not (changed and module.check_mode):
        problems = [problem for pin in pins for problem in apt_policy.unmet(pin, policy)]
    for problem in problems:
        module.warn(problem)
    module.exit_json(
        changed=changed or bool(marked),
        diff=[diff, *hold_diff],
        path=str(path),
        held=marked if present else [],
        released=[] if present else marked,
        policy=policy,
        problems=problems,
    )


if __name__ == "__main__":
    main()
