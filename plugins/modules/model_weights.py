#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: the weights of one revision in a folder, from a folder, a web server or a bucket."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: model_weights
short_description: Have the weights of one revision in a folder
version_added: "0.1.0"
description:
  - Reads C(kvlab-model.json) (C(kvlab model list)) of the source and brings the files that are missing or differ.
  - A file appears under its name only when its hash is right. What an interrupted run brought of a file is kept, and
    the rest is asked for by its range.
  - Files that were verified are not hashed again until their size or time changes, unless O(hashed).
  - A public hub is refused.
options:
  path:
    description: Folder of the model.
    type: path
    required: true
  source:
    description: A folder's absolute path, an address with http or https, or C(s3://BUCKET/PREFIX). Empty only verifies.
    type: str
    default: ""
  sha256:
    description: SHA-256 of C(kvlab-model.json), which stands for the revision; not compared when empty.
    type: str
    default: ""
  hashed:
    description: Whether every file is hashed, also those that were verified before.
    type: bool
    default: false
  endpoint:
    description: Address of the store of a bucket, such as C(http://192.0.2.10:9020).
    type: str
    default: ""
  access_key:
    description: Its access key.
    type: str
    default: ""
  secret_key:
    description: Its secret key, from any Ansible lookup.
    type: str
    default: ""
  ca_path:
    description: PEM bundle to trust instead of the system's.
    type: path
  validate_certs:
    description: Whether to verify certificates.
    type: bool
    default: true
requirements:
  - The kvlab Python package for the interpreter that runs the module.
attributes:
  check_mode:
    description: Reads the list and tells what would be brought.
    support: full
  diff_mode:
    description: Shows the revision.
    support: full
author:
  - kvlab contributors (!UNKNOWN)
"""

EXAMPLES = r"""
- name: Have the weights
  kvlab.lab.model_weights:
    path: /srv/models/qwen3-coder-30b-a3b
    source: https://mirror.example.invalid/models/qwen3-coder-30b-a3b
    sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
"""

RETURN = r"""
model:
  description: Name of the model, as the list says.
  type: str
  returned: success
revision:
  description: Its revision, as the list says.
  type: str
  returned: success
files:
  description: Files that were brought, or in check mode would be.
  type: list
  elements: str
  returned: success
bytes:
  description: Bytes that were read of the source.
  type: int
  returned: success
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule


def source_of(given):
    """The source that the options name; None for none."""
    from kvlab.modelstore import sources
    from kvlab.objectscale import s3

    verify = given["ca_path"] or given["validate_certs"]
    client = None
    if given["source"].startswith("s3:") and given["endpoint"]:
        client = s3.client(given["endpoint"], given["access_key"], given["secret_key"], verify=verify)
    return sources.named(given["source"], client=client, verify=verify) if given["source"] else None


def bring(given, check_mode):
    """What the module returns."""
    from kvlab.errors import KvlabError
    from kvlab.modelstore import fetch, listing

    source, folder = source_of(given), Path(given["path"])
    own = folder / listing.NAME
    if source is None and not own.is_file():
        raise KvlabError(
            f"{own} is not there; make it by kvlab model list, or name a source by model_store_source."
        )
    before = own.read_bytes() if own.is_file() else b""
    content = fetch.listing_of(source) if source else before
    found = listing.read(content, f"{given['source'] or folder}/{listing.NAME}", given["sha256"])
    names = fetch.missing(found, folder, hashed=given["hashed"])
    if names and source is None:
        raise KvlabError(
            f"{folder} is not revision {found.revision}: missing or different are {', '.join(names)}."
        )
    changed = bool(names) or content != before
    result = {
        "model": found.model,
        "revision": found.revision,
        "files": names,
        "bytes": 0,
        "changed": changed,
    }
    result["diff"] = {
        "before": {"list": before.decode(errors="replace")},
        "after": {"list": content.decode()},
    }
    if check_mode:
        return result
    if source:
        result["bytes"] = fetch.fetch(source, found, folder, names).bytes
        if content != before:
            own.write_bytes(content)
    # A note about what was looked at changes nothing for anyone.
    fetch.remember(found, folder)
    return result


def main():
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "source": {"type": "str", "default": ""},
            "sha256": {"type": "str", "default": "", "no_log": False},
            "hashed": {"type": "bool", "default": False},
            "endpoint": {"type": "str", "default": ""},
            "access_key": {"type": "str", "default": "", "no_log": False},
            "secret_key": {"type": "str", "default": "", "no_log": True},
            "ca_path": {"type": "path"},
            "validate_certs": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    try:
        from kvlab.errors import KvlabError
    except ImportError as error:
        module.fail_json(
            msg=f"the kvlab package is not importable on this host ({error}); run ./lab, which installs it"
        )
    try:
        result = bring(module.params, module.check_mode)
    except KvlabError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"{error.filename} cannot be read or written ({error.strerror})")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
