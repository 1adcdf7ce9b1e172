# SPDX-License-Identifier: Apache-2.0
"""The options that all modules of the management API share."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  host:
    description: Name or address of the array's management API.
    type: str
    required: true
  port:
    description: Its port.
    type: int
    default: 4443
  username:
    description: Management user.
    type: str
    required: true
  password:
    description: Its password, from any Ansible lookup.
    type: str
    required: true
  session_file:
    description:
      - File (0600) that keeps the login between the tasks of a play; M(kvlab.lab.objectscale_session) ends it.
      - Without it each task logs in and out by itself.
    type: path
  ca_path:
    description: PEM bundle to trust instead of the system's.
    type: path
  validate_certs:
    description: Whether to verify the array's certificate. Without that, whoever is between can read the password.
    type: bool
    default: true
  timeout:
    description: Seconds to wait for an answer.
    type: int
    default: 30
requirements:
  - The kvlab Python package for the interpreter that runs the module.
notes:
  - Run it on the controller (C(delegate_to=localhost), C(run_once)).
  - For ObjectScale 4.x and ECS 3.8. What the array refuses is told by its own code, with what to do.
attributes:
  check_mode:
    description: Looks at the array and changes nothing.
    support: full
  diff_mode:
    description: Shows what differs, in the words of the options.
    support: full
author:
  - kvlab contributors (!UNKNOWN)
"""
