#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: one vendor's apt repository with its own key, tried before it stays."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: apt_source
short_description: Add a vendor's repository with its own key
version_added: "0.1.0"
description:
  - Keeps NAME.sources and the key that only this repository may be signed with, and reads its index after a change.
    A repository that apt does not take goes again, with the reason in one sentence, so that a wrong address or key
    does not stop every later call of apt.
  - Refuses a second source file with the same address, unless it is one of O(replaces). Two with different keys make
    apt stop altogether (Conflicting values set for option Signed-By).
options:
  name:
    description: Name of the source file and of the key.
    type: str
    required: true
  uri:
    description: Address of the repository; C(file:) for a folder.
    type: str
    required: true
  suite:
    description: Suite, or a path that ends in a slash for a flat repository.
    type: str
    default: ./
  components:
    description: Components; none for a flat repository.
    type: list
    elements: str
    default: []
  key_url:
    description: Address of the key, which is armored.
    type: str
    required: true
  key_sha256:
    description: SHA-256 of the key; not compared when empty.
    type: str
    default: ""
  replaces:
    description: Source files, pins and keys of other recipes for this repository that are removed; with wildcards.
    type: list
    elements: path
    default: []
  apt_folder:
    description: Folder of apt's configuration.
    type: path
    default: /etc/apt
  keyring_folder:
    description: Folder of the key.
    type: path
    default: /usr/share/keyrings
author: kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Add CUDA's repository
  kvlab.lab.apt_source:
    name: kvlab-cuda
    uri: https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/
    suite: /
    key_url: https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/3bf863cc.pub
    replaces: [/etc/apt/sources.list.d/cuda-*.list, /etc/apt/preferences.d/cuda-repository-pin-600]
"""

RETURN = r"""
removed:
  description: Files of other recipes that were removed.
  type: list
  elements: str
  returned: always
"""

import hashlib
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.kvlab.lab.plugins.module_utils import apt_sources

TIMEOUT_S = 30


def fetch_key(module, given):
    """The key, as it is at its address."""
    try:
        with open_url(given["key_url"], timeout=TIMEOUT_S) as reply:
            key = reply.read()
    except Exception as error:  # noqa: BLE001 - urllib's many, all of one meaning
        module.fail_json(
            msg=f"the key of repository {given['name']} cannot be had from {given['key_url']}: {error}; correct the "
            "address of the key, or make it reachable from this host"
        )
    if not key.lstrip().startswith(b"-----BEGIN PGP PUBLIC KEY BLOCK-----"):
        module.fail_json(
            msg=f"{given['key_url']} gives no armored key for repository {given['name']}; correct the address"
        )
    check_key(module, given, key)
    return key


def check_key(module, given, key):
    """Refuse a key that is not the one that was meant."""
    have = hashlib.sha256(key).hexdigest()
    if given["key_sha256"] and have != given["key_sha256"]:
        module.fail_json(
            msg=f"the key of repository {given['name']} from {given['key_url']} has SHA-256 {have}, not "
            f"{given['key_sha256']}: ask the vendor which is right before you trust it; nothing was changed"
        )


def rivals(apt_folder, own, uri, replaced):
    """Other source files with this address, but for those that are removed."""
    paths = [apt_folder / "sources.list", *sorted((apt_folder / "sources.list.d").glob("*"))]
    for path in paths:
        known = (
            path.suffix in (".list", ".sources") and path.is_file() and path != own and path not in replaced
        )
        if known and uri.rstrip("/") in apt_sources.uris(path.name, path.read_text()):
            yield str(path)


def put(module, path, content):
    """Write one file that everybody may read."""
    aside = Path(module.tmpdir, path.name)
    aside.write_bytes(content)
    aside.chmod(0o644)
    path.parent.mkdir(parents=True, exist_ok=True)
    module.atomic_move(str(aside), str(path))


def try_it(module, source):
    """apt's complaint about this one source, empty when it takes it."""
    apt_get = module.get_bin_path("apt-get", required=True)
    only = [
        "-o",
        f"Dir::Etc::SourceList={source}",
        "-o",
        "Dir::Etc::SourceParts=-",
        "-o",
        "APT::Get::List-Cleanup=0",
    ]
    words = [apt_get, "update", "-o", "APT::Update::Error-Mode=any", *only]
    status, out, complaint = module.run_command(words, environ_update={"LC_ALL": "C"})
    return (complaint or out) if status else ""


def main():
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "uri": {"type": "str", "required": True},
            "suite": {"type": "str", "default": "./"},
            "components": {"type": "list", "elements": "str", "default": []},
            "key_url": {"type": "str", "required": True, "no_log": False},
            "key_sha256": {"type": "str", "default": "", "no_log": False},
            "replaces": {"type": "list", "elements": "path", "default": []},
            "apt_folder": {"type": "path", "default": "/etc/apt"},
            "keyring_folder": {"type": "path", "default": "/usr/share/keyrings"},
        },
        supports_check_mode=True,
    )
    given, apt_folder = module.params, Path(module.params["apt_folder"])
    source = apt_folder / "sources.list.d" / f"{given['name']}.sources"
    keyring = Path(given["keyring_folder"], f"{given['name']}.asc")
    text = apt_sources.render(given["uri"], given["suite"], given["components"], keyring, given["key_url"])
    before = source.read_text() if source.is_file() else ""
    replaced = sorted(
        {path for pattern in given["replaces"] for path in Path("/").glob(pattern.lstrip("/"))}
        - {source, keyring}
    )
    others = list(rivals(apt_folder, source, given["uri"], replaced))
    if others:
        module.fail_json(
            msg=f"{', '.join(others)} has the repository {given['uri']} already; two entries with different keys stop "
            "apt: remove that file, or name its address here no more"
        )
    changed = before != text or not keyring.is_file()
    if keyring.is_file() and not changed:
        check_key(module, given, keyring.read_bytes())
    result = {"changed": bool(changed or replaced), "removed": [str(path) for path in replaced]}
    result["diff"] = {
        "before": before,
        "after": text,
        "before_header": str(source),
        "after_header": str(source),
    }
    if not result["changed"]:
        module.exit_json(**result)
    key = fetch_key(module, given) if changed else None
    if module.check_mode:
        module.exit_json(**result)
    for path in replaced:
        path.unlink()
    if changed:
        previous = keyring.read_bytes() if keyring.is_file() else None
        put(module, keyring, key)
        put(module, source, text.encode())
        if complaint := try_it(module, source):
            undo(module, source, before.encode() or None, keyring, previous)
            module.fail_json(
                msg=f"the repository {given['uri']} cannot be used: {apt_sources.meaning(complaint)}; correct its "
                f"address or its key {given['key_url']}. It was taken out again"
            )
    module.exit_json(**result)


def undo(module, source, text, keyring, key):
    """Both files as they were before."""
    for path, content in ((source, text), (keyring, key)):
        if content is None:
            path.unlink()
        else:
            put(module, path, content)


if __name__ == "__main__":
    main()
