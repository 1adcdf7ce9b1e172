# Copyright: kvlab contributors
# SPDX-License-Identifier: Apache-2.0
"""Filters that render KV-cache configuration on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
name: kv_profile_files
short_description: Render the files of a serving profile
version_added: "0.1.0"
description:
  - Turns a profile, given as a dictionary, into the files of its directory.
  - Runs on the controller, where the kvlab Python package is installed; touches no file and no host.
positional: _input
options:
  _input:
    description:
      - The profile; its keys are the fields of C(kvlab.kvcache.profile.ProfileSpec).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Write the files of a profile
  ansible.builtin.copy:
    content: "{{ item.value.content }}"
    dest: "{{ profile.directory }}/{{ item.key }}"
    mode: "{{ item.value.mode }}"
  loop: "{{ profile | kvlab.lab.kv_profile_files | dict2items }}"
  no_log: true
"""

RETURN = r"""
_value:
  description:
    - File name to a dictionary of C(content), C(mode) (octal, as a string such as "0600")
      and C(secret) (boolean).
  type: dict
"""

from ansible.errors import AnsibleFilterError

try:
    from kvlab.errors import KvlabError
    from kvlab.kvcache import epoch, render
    from kvlab.kvcache.profile import ProfileSpec
except ImportError as error:
    IMPORT_ERROR = error
else:
    IMPORT_ERROR = None


def kv_profile_files(profile):
    """The files of a profile directory: name -> {content, mode, secret}."""
    if IMPORT_ERROR is not None:
        raise AnsibleFilterError(
            f"kv_profile_files needs the kvlab Python package beside ansible-core on the controller: "
            f"{IMPORT_ERROR}. "
            "Run through ./lab, which installs both."
        )
    if not isinstance(profile, dict):
        raise AnsibleFilterError(f"kv_profile_files takes a dictionary, not {type(profile).__name__}.")
    try:
        rendered = render.profile(ProfileSpec.from_mapping(profile))
    except KvlabError as error:
        raise AnsibleFilterError(f"kv_profile_files: {error}") from None
    return {
        name: {"content": file.content, "mode": f"{file.mode:04o}", "secret": file.secret}
        for name, file in rendered.files.items()
    }


def kv_profile_epoch(profile, prefix=None):
    """The cache epoch of a profile, or with a prefix the name of its bucket; the profile needs no bucket yet."""
    if IMPORT_ERROR is not None or not isinstance(profile, dict):
        return kv_profile_files(profile)
    try:
        spec = ProfileSpec.from_mapping({**profile, "bucket": profile.get("bucket") or "kvlab"})
        found = epoch.of(spec, spec.geometry())
        return found if prefix is None else epoch.bucket_name(prefix, found)
    except KvlabError as error:
        raise AnsibleFilterError(f"kv_profile_epoch: {error}") from None


class FilterModule:
    """Filters of this file."""

    def filters(self):
        """Filter names and their functions."""
        return {"kv_profile_files": kv_profile_files, "kv_profile_epoch": kv_profile_epoch}
