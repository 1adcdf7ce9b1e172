# SPDX-License-Identifier: Apache-2.0
"""What all modules of the management API share: options, the client, and results from a plan."""

from __future__ import annotations

from contextlib import contextmanager

ACCESS_SPEC = {
    "host": {"type": "str", "required": True},
    "port": {"type": "int", "default": 4443},
    "username": {"type": "str", "required": True},
    "password": {"type": "str", "required": True, "no_log": True},
    "session_file": {"type": "path"},
    "ca_path": {"type": "path"},
    "validate_certs": {"type": "bool", "default": True},
    "timeout": {"type": "int", "default": 30},
}
STATE_SPEC = {"type": "str", "choices": ["present", "absent"], "default": "present"}


def client(wanted):
    """The client that the common options describe."""
    from kvlab.objectscale.management import Management
    from kvlab.objectscale.session import SessionFile
    from kvlab.objectscale.wire import Access

    names = ("host", "username", "password", "port", "validate_certs", "ca_path", "timeout")
    store = SessionFile(wanted["session_file"]) if wanted["session_file"] else None
    return Management(Access(**{name: wanted[name] for name in names}), store)


@contextmanager
def management(module):
    """The client for a module; what goes wrong inside ends the module with one sentence."""
    try:
        from kvlab.errors import KvlabError
    except ImportError as error:
        module.fail_json(
            msg=f"the kvlab package is not importable on this host ({error}); run ./lab, which installs it"
        )
    if not module.params["validate_certs"]:
        module.warn(
            f"the certificate of {module.params['host']} is not verified: whoever is between can read the password; "
            "set ca_path to the array's CA instead"
        )
    try:
        with client(module.params) as api:
            yield api
    except KvlabError as error:
        module.fail_json(msg=str(error))


def given(params, names):
    """The options among `names` that the task sets."""
    return {name: params[name] for name in names if params[name] is not None}


def result(plan, **more):
    """A module's result from the plan that was, or in check mode would be, carried out."""
    return {"changed": plan.changed, "diff": {"before": plan.before, "after": plan.after}, **more}


def texts(tags):
    """Tags with their values as text, as the array keeps them; YAML makes numbers and booleans of some."""
    return None if tags is None else {name: str(value) for name, value in tags.items()}
