#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: the end of a lab's logs, without what is secret in them."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: service_logs
short_description: Collect the end of the lab's logs with the secrets taken out
version_added: "0.1.0"
description:
  - Read-only. For the artifacts of a run that failed, which more people read than the lab's hosts.
  - Taken out are the values of O(secrets), those of the lab's 0600 files in O(secret_files), and what looks like a
    credential wherever it comes from, such as an Authorization header. This happens on the host.
options:
  log_dir:
    description: Folder whose files C(*.log), C(*.jsonl) and C(*.txt) are taken, with those in folders below it.
    type: path
  units:
    description: Patterns of systemd units whose journal is taken, such as C(kvlab-*); nothing without journalctl.
    type: list
    elements: str
    default: []
  max_bytes:
    description: How much of the end of each log is taken.
    type: int
    default: 1000000
  secrets:
    description: Values to take out.
    type: list
    elements: str
    default: []
  secret_files:
    description:
      - Files whose values are taken out, C(KEY=VALUE) lines or JSON.
      - One that is not there is passed over; one that cannot be read is a failure, for its secrets would be left in.
    type: list
    elements: path
    default: []
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Collect the logs
  kvlab.lab.service_logs:
    log_dir: /var/log/kvlab
    units: ["kvlab-*"]
    secret_files: [/etc/kvlab/secrets/objectscale.json]
  register: __logs
"""

RETURN = r"""
logs:
  description: Text by name; that of a file is its path below O(log_dir), that of the journal C(journal.txt).
  type: dict
  returned: always
taken_out:
  description: How many places were taken out.
  type: int
  returned: always
"""

import json
import os
import re
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

SUFFIXES = (".log", ".jsonl", ".txt")
MARK = "[taken out]"

SHORTEST = 6
"""A shorter value would take out half of the log; no key of this lab is that short."""

SHAPES = (
    re.compile(r"(?i)(authorization['\"]?\s*[:=]\s*['\"]?)[^\r\n'\"]+"),
    re.compile(r"(?i)(x-sds-auth-token['\"]?\s*[:=]\s*['\"]?)[^\s'\",]+"),
    re.compile(r"(?i)((?:secret|password|passwd|token)[\w-]*['\"]?\s*[:=]\s*['\"]?)[^\s'\",}]{6,}"),
    re.compile(r"(X-Amz-(?:Signature|Credential|Security-Token)=)[^&\s'\"]+"),
    re.compile(r"()-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
)


def values_of(text):
    """What a secret file holds: all strings of a JSON document, or the values of its KEY=VALUE lines."""
    try:
        document = json.loads(text)
    except ValueError:
        pairs = (line.partition("=") for line in text.splitlines() if not line.lstrip().startswith("#"))
        # A file that is one word is that secret.
        return [value.strip().strip("'\"") if sign else key.strip() for key, sign, value in pairs]
    found, left = [], [document]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)
        elif isinstance(value, str):
            found.append(value)
    return found


def without(text, secrets):
    """The text with every secret and every credential's shape taken out, and how many they were."""
    count = 0
    for secret in sorted(secrets, key=len, reverse=True):
        count += text.count(secret)
        text = text.replace(secret, MARK)
    for shape in SHAPES:
        text, times = shape.subn(lambda found: found.group(1) + MARK, text)
        count += times
    return text, count


def end_of(path, size):
    """The last `size` bytes of a file, from the beginning of a line on."""
    with path.open("rb") as file:
        length = file.seek(0, os.SEEK_END)
        file.seek(max(0, length - size))
        text = file.read(size).decode("utf-8", "replace")
    return text if length <= size else text.partition("\n")[2]


def main():
    module = AnsibleModule(
        argument_spec={
            "log_dir": {"type": "path"},
            "units": {"type": "list", "elements": "str", "default": []},
            "max_bytes": {"type": "int", "default": 1000000},
            "secrets": {"type": "list", "elements": "str", "default": [], "no_log": True},
            "secret_files": {"type": "list", "elements": "path", "default": [], "no_log": False},
        },
        supports_check_mode=True,
    )
    secrets = list(module.params["secrets"])
    for name in module.params["secret_files"]:
        try:
            secrets += values_of(Path(name).read_text("utf-8"))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            module.fail_json(
                msg=f"{name} cannot be read ({error}); its secrets would stay in the logs, so none is taken."
            )
    secrets = [secret for secret in secrets if len(secret) >= SHORTEST]

    raw = {}
    size = module.params["max_bytes"]
    if module.params["log_dir"]:
        folder = Path(module.params["log_dir"])
        for path in sorted(folder.rglob("*")):
            if path.suffix in SUFFIXES and path.is_file() and not path.is_symlink():
                raw[str(path.relative_to(folder))] = end_of(path, size)
    if module.params["units"] and module.get_bin_path("journalctl"):
        chosen = [f"--unit={unit}" for unit in module.params["units"]]
        _status, out, err = module.run_command(["journalctl", "--no-pager", "--boot", *chosen])
        raw["journal.txt"] = (out or err)[-size:]

    logs, taken = {}, 0
    for name, text in raw.items():
        logs[name], times = without(text, secrets)
        taken += times
    module.exit_json(changed=False, logs=logs, taken_out=taken)


if __name__ == "__main__":
    main()
