# SPDX-License-Identifier: Apache-2.0
"""The options that all modules of the S3 API share."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  endpoint:
    description: Address of the store, such as C(http://192.0.2.10:9020).
    type: str
    required: true
  access_key:
    description: Access key; on ObjectScale the name of the object user.
    type: str
    required: true
  secret_key:
    description: Secret key, from any Ansible lookup.
    type: str
    required: true
  ca_path:
    description: PEM bundle to trust instead of the system's, for an C(https) endpoint.
    type: path
  validate_certs:
    description: Whether to verify the store's certificate.
    type: bool
    default: true
requirements:
  - The kvlab Python package for the interpreter that runs the module.
attributes:
  check_mode:
    description: Writes nothing. A store that does not answer counts as one that is empty yet, with a warning.
    support: full
  diff_mode:
    description: Shows what differs.
    support: full
author:
  - kvlab contributors (!UNKNOWN)
"""
