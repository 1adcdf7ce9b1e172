#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: kernel arguments in the boot loader's configuration, and whether a reboot is due."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: kernel_cmdline
short_description: Have kernel arguments in the boot loader's configuration
version_added: "0.1.0"
description:
  - Debian and Ubuntu get a drop-in below C(/etc/default/grub.d), and C(update-grub) is run. On RHEL C(grubby) changes
    every boot entry.
  - It removes only what it owns, which is what an earlier run with the same I(name) has added. With GRUB that is the
    drop-in; with grubby, which has no such file, it is noted in I(state_folder). An argument that every boot entry had
    before is not its own; one that some lacked is.
  - C(grubby) replaces the value of an argument that is there already. Where that value is not this module's, it fails
    instead, because the value could not be brought back.
  - It never reboots. It reports whether the running kernel lacks an argument.
options:
  name:
    description: Whose arguments these are; in the drop-in's file name.
    type: str
    required: true
  arguments:
    description: All arguments of this owner, such as iommu=pt. Needed when I(state) is present.
    type: list
    elements: str
    default: []
  state:
    description: Whether the owner's arguments are to be there.
    type: str
    choices: [present, absent]
    default: present
  bootloader:
    description: What to change; C(auto) takes grubby where there is one, else GRUB's drop-ins.
    type: str
    choices: [auto, grub, grubby]
    default: auto
  grub_folder:
    description: Folder of GRUB's drop-ins.
    type: path
    default: /etc/default/grub.d
  state_folder:
    description: Where it is noted which arguments were added with grubby.
    type: path
    default: /var/lib/kvlab
  running:
    description: The running kernel's command line.
    type: path
    default: /proc/cmdline
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Let devices reach memory without translation
  kvlab.lab.kernel_cmdline:
    name: kvlab
    arguments: [iommu=pt]
  register: __host_base_cmdline

- name: Take the arguments back
  kvlab.lab.kernel_cmdline:
    name: kvlab
    state: absent
"""

RETURN = r"""
bootloader:
  description: What was looked at, grub or grubby.
  type: str
  returned: always
reboot_required:
  description: Whether the running kernel lacks a wanted argument, or still has one that this run took back.
  type: bool
  returned: always
missing:
  description: The wanted arguments that the running kernel lacks, or has with another value that comes later.
  type: list
  elements: str
  returned: always
removed:
  description: The owner's arguments that this run took back.
  type: list
  elements: str
  returned: always
"""

import re
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kvlab.lab.plugins.module_utils import kernel_args

ALL = "--update-kernel=ALL"


def write(module, path, text):
    """Put a text in place atomically, or with None remove the file."""
    if text is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(module.tmpdir, path.name)
    aside.write_text(text)
    aside.chmod(0o644)
    module.atomic_move(str(aside), str(path))


def command(module, *words):
    """Run a command of the boot loader; raises KernelArgumentError when it is missing or fails. Returns its output."""
    path = module.get_bin_path(words[0])
    if path is None:
        raise kernel_args.KernelArgumentError(
            f"{words[0]} is not on this host; set bootloader to what the host boots with"
        )
    status, out, complaint = module.run_command([path, *words[1:]])
    if status:
        said = " ".join((complaint or out).split())
        raise kernel_args.KernelArgumentError(
            f"{' '.join(words)} ended with {status}: {said or 'no word why'}"
        )
    return out


def with_grub(module, wanted):
    """The owner's drop-in as wanted; returns what it had, whether it changed, and the diff."""
    path = Path(module.params["grub_folder"], f"90-{module.params['name']}.cfg")
    before = path.read_text() if path.is_file() else None
    after = kernel_args.dropin(module.params["name"], wanted) if wanted else None
    if before != after and not module.check_mode:
        write(module, path, after)
        try:
            command(module, "update-grub")
        except kernel_args.KernelArgumentError:
            # Else the next run would find the drop-in as wanted and never tell GRUB.
            write(module, path, before)
            raise
    headers = {"before_header": str(path), "after_header": str(path)}
    diff = {"before": before or "", "after": after or "", **headers}
    return kernel_args.dropin_arguments(before or ""), before != after, diff


def with_grubby(module, wanted):
    """Every boot entry with the wanted arguments; returns what was owned, whether it changed, and the diff."""
    note = Path(module.params["state_folder"], f"kernel_cmdline-{module.params['name']}.txt")
    owned = note.read_text().split() if note.is_file() else []
    entries = kernel_args.grubby_entries(command(module, "grubby", "--info=ALL"))
    wants = {kernel_args.same(argument) for argument in wanted}
    for kernel, have in entries.items():
        strange = [a for a in have if kernel_args.same(a) not in wants and a not in owned]
        clash = [a for a in strange if kernel_args.key(a) in map(kernel_args.key, wanted)]
        if clash:
            raise kernel_args.KernelArgumentError(
                f"{kernel} already has {' '.join(clash)}, which is not {module.params['name']}'s; remove it by hand, "
                "or do without the argument"
            )
    drop = [a for a in owned if kernel_args.same(a) not in wants]
    lacking = [a for have in entries.values() for a in kernel_args.missing(wanted, have)]
    add = [a for a in wanted if a in lacking]
    # What every entry had before this module came is somebody else's.
    owns = [a for a in wanted if a in owned or a in add]
    remove = [a for a in drop if any(a in have for have in entries.values())]
    if not module.check_mode:
        if remove:
            command(module, "grubby", ALL, f"--remove-args={' '.join(remove)}")
        if add:
            command(module, "grubby", ALL, f"--args={' '.join(add)}")
        if owns != owned:
            write(module, note, "\n".join([*owns, ""]) if owns else None)
    after = {
        kernel: [a for a in have if a not in remove] + kernel_args.missing(add, have)
        for kernel, have in entries.items()
    }
    show = ["".join(f"{kernel}: {' '.join(have)}\n" for kernel, have in e.items()) for e in (entries, after)]
    return owned, bool(add or remove), {"before": show[0], "after": show[1]}


def main():
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "arguments": {"type": "list", "elements": "str", "default": []},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "bootloader": {"type": "str", "choices": ["auto", "grub", "grubby"], "default": "auto"},
            "grub_folder": {"type": "path", "default": "/etc/default/grub.d"},
            "state_folder": {"type": "path", "default": "/var/lib/kvlab"},
            "running": {"type": "path", "default": "/proc/cmdline"},
        },
        supports_check_mode=True,
    )
    given = module.params
    wanted = list(dict.fromkeys(given["arguments"])) if given["state"] == "present" else []
    if given["state"] == "present" and not wanted:
        module.fail_json(
            msg="arguments is empty; name the arguments, or set state to absent to take them back"
        )
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", given["name"]):
        module.fail_json(
            msg=f"name {given['name']!r} is no file name; use letters, digits, dashes and underscores"
        )
    kind = given["bootloader"]
    if kind == "auto":
        kind = "grubby" if module.get_bin_path("grubby") else "grub"
    try:
        kernel_args.check(wanted)
        running = kernel_args.split(Path(given["running"]).read_text())
        owned, changed, diff = (with_grubby if kind == "grubby" else with_grub)(module, wanted)
    except (kernel_args.KernelArgumentError, OSError) as error:
        module.fail_json(msg=f"kernel arguments cannot be set: {error}")
    removed = [argument for argument in owned if argument not in wanted]
    missing = kernel_args.missing(wanted, running)
    reboot = bool(missing) or any(argument in running for argument in removed)
    module.exit_json(
        changed=changed, diff=diff, bootloader=kind, reboot_required=reboot, missing=missing, removed=removed
    )


if __name__ == "__main__":
    main()
