#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: which environment and which profiles a host serves with, and the way back to the ones before."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: serving_release
short_description: Switch a host between sets of environment and profiles, and remember the one before
version_added: "0.1.0"
description:
  - A release is one folder for each name of O(links), such as an environment and a set of profiles. Its folders are
    never changed again; what serves is what the links name, and each link is switched in one step.
  - Who builds a folder names it by a link beside, C(LINK.next). V(switched) lets the links follow, all or none.
  - A release counts only when it has served (V(served)); the one that served before is then remembered. So V(back)
    leads from an upgrade that never served to what served last, and from one that served to the one before it.
  - A link that is a folder is left alone where nothing is offered in its place, for a lab that builds in place.
options:
  state:
    description:
      - V(switched) points each link at what C(LINK.next) names.
      - V(served) records that what the links name has served, and removes folders beyond O(keep).
      - V(back) points the links, and their C(.next), at the release to go back to; fails where there is none.
    type: str
    choices: [switched, served, back]
    default: switched
  links:
    description: The links, by what each of them names.
    type: dict
    required: true
  record:
    description: File that remembers what served; read and written by this module alone.
    type: path
    required: true
  keep:
    description:
      - With V(served), how many folders stay for each link. Those in use, offered or to go back to always stay.
    type: int
    default: 2
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Serve with what was built
  kvlab.lab.serving_release:
    links: {venv: /opt/kvlab/venv, profiles: /etc/kvlab/profiles}
    record: /var/lib/kvlab/release.json
"""

RETURN = r"""
release:
  description: What each link names now, by the name in O(links); null for a link that names nothing yet.
  type: dict
  returned: always
before:
  description: What each link named before.
  type: dict
  returned: always
removed:
  description: Folders that were removed.
  type: list
  elements: str
  returned: always
"""

import json
import os
import re
import shutil
import tempfile
from datetime import datetime, timezone
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

# Only what is named by a hash was made by kvlab, and may be removed.
BY_HASH = re.compile(r"(?:^|-)[0-9a-f]{12}$")


class RefusedError(Exception):
    """A sentence for the user."""


def target(link):
    """What a link names, or None where it is not there or not a link."""
    return str(link.readlink()) if link.is_symlink() else None


def offered(link):
    """The link by which a folder is offered."""
    return link.with_name(link.name + ".next")


def point(link, folder):
    """Let a link name a folder, in one step."""
    aside = link.with_name(f".{link.name}.{os.getpid()}")
    aside.symlink_to(folder)
    aside.replace(link)


def in_use(links):
    """What each link names."""
    return {name: target(link) for name, link in links.items()}


def wanted(links):
    """What each link should name: what is offered, else what it names."""
    return {name: target(offered(link)) or target(link) for name, link in links.items()}


def refuse_what_cannot_be_switched(links, release, check_mode):
    """A folder in a link's place, and a release whose folders are gone."""
    for name, folder in release.items():
        link = links[name]
        if folder and link.exists() and not link.is_symlink():
            raise RefusedError(
                f"{link} is a folder, and should be a link to one; stop what runs from it, move it away and run again."
            )
        if not folder and not link.exists() and not check_mode:
            raise RefusedError(
                f"There is no {link} yet, and nothing that it could name; run site.yml without --tags."
            )
        if folder and not Path(folder).is_dir() and not check_mode:
            raise RefusedError(f"{folder} is gone, so {link} cannot name it; run site.yml to have it made.")


def read(record):
    """The record; one without releases where there is none."""
    try:
        found = json.loads(record.read_text("utf-8"))
        return {"current": found["current"], "previous": found["previous"]}
    except FileNotFoundError:
        return {"current": None, "previous": None}
    except (ValueError, KeyError, TypeError) as error:
        raise RefusedError(
            f"{record} is damaged ({error}); move it away. What served before is then forgotten."
        ) from None


def folders(entry):
    """The folders of a recorded release, by name."""
    return entry["folders"] if entry else None


def write(record, content):
    """Write the record aside, and rename it into place."""
    record.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=str(record.parent), prefix=".release-")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(json.dumps(content, indent=1) + "\n")
    Path(aside).chmod(0o644)
    Path(aside).replace(record)


def former(links, record):
    """The release to go back to: what served last where the links name another, else the one before it."""
    known = read(record)
    current = folders(known["current"])
    back = current if current and in_use(links) != current else folders(known["previous"])
    if not back or set(back) != set(links):
        raise RefusedError("There is nothing to go back to: no other release has served on this host.")
    return back


def spare(links, record, keep):
    """Folders to remove: the oldest beyond `keep`, and never one in use, offered or to go back to."""
    found = []
    for name, link in links.items():
        needed = {target(link), target(offered(link))}
        needed |= {folders(entry)[name] for entry in read(record).values() if entry}
        needed.discard(None)
        for parent in sorted({Path(folder).parent for folder in needed}):
            made = [one for one in parent.iterdir() if BY_HASH.search(one.name) and one.is_dir()]
            others = [one for one in made if str(one) not in needed and not one.is_symlink()]
            others.sort(key=lambda one: one.stat().st_mtime, reverse=True)
            found += others[max(0, keep - (len(made) - len(others))) :]
    return found


def served(links, record, keep, check_mode):
    """Record that the links' release has served, and remove spare folders; whether anything changed, and those."""
    known, now = read(record), in_use(links)
    if None in now.values():
        return False, []
    new = folders(known["current"]) != now
    if new:
        since = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        known = {"current": {"folders": now, "since": since}, "previous": known["current"]}
        if check_mode:
            return True, []
        write(record, known)
    remove = spare(links, record, keep)
    for folder in remove:
        if not check_mode:
            shutil.rmtree(str(folder))
            Path(f"{folder}.lock").unlink(missing_ok=True)
    return new or bool(remove), [str(folder) for folder in remove]


def main():
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["switched", "served", "back"], "default": "switched"},
            "links": {"type": "dict", "required": True},
            "record": {"type": "path", "required": True},
            "keep": {"type": "int", "default": 2},
        },
        supports_check_mode=True,
    )
    links = {name: Path(path) for name, path in module.params["links"].items()}
    record, state = Path(module.params["record"]), module.params["state"]
    before = in_use(links)
    try:
        if state == "served":
            changed, removed = served(links, record, module.params["keep"], module.check_mode)
            module.exit_json(changed=changed, release=before, before=before, removed=removed)
        release = former(links, record) if state == "back" else wanted(links)
        refuse_what_cannot_be_switched(links, release, module.check_mode)
        moved = [name for name, folder in release.items() if folder and folder != before[name]]
        if not module.check_mode:
            for name in moved:
                point(links[name], release[name])
            if state == "back":
                for name, folder in release.items():
                    point(offered(links[name]), folder)
    except RefusedError as refusal:
        module.fail_json(msg=str(refusal), release=before, before=before, removed=[])
    except OSError as error:
        module.fail_json(
            msg=f"The release cannot be switched: {error}", release=before, before=before, removed=[]
        )
    diff = {
        part: "".join(f"{links[name]} -> {shown[name]}\n" for name in moved)
        for part, shown in (("before", before), ("after", release))
    }
    module.exit_json(changed=bool(moved), release=release, before=before, removed=[], diff=diff)


if __name__ == "__main__":
    main()
