# SPDX-License-Identifier: Apache-2.0
"""What all modules of the S3 API share: options, the client, and failures as one sentence."""

from __future__ import annotations

from contextlib import contextmanager

ACCESS_SPEC = {
    "endpoint": {"type": "str", "required": True},
    "access_key": {"type": "str", "required": True, "no_log": False},
    "secret_key": {"type": "str", "required": True, "no_log": True},
    "ca_path": {"type": "path"},
    "validate_certs": {"type": "bool", "default": True},
}


def client(wanted, **more):
    """The boto3 client that the common options describe."""
    from kvlab.objectscale import s3

    verify = wanted["ca_path"] or wanted["validate_certs"] or False
    return s3.client(wanted["endpoint"], wanted["access_key"], wanted["secret_key"], verify=verify, **more)


@contextmanager
def store(module, about, nothing_there=None):
    """A client for a module; what goes wrong inside ends the module with one sentence that begins with `about`.

    In check mode a lab may not be up yet: where nothing answers, the module ends with `nothing_there` as its result.
    """
    try:
        from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError

        from kvlab.errors import KvlabError
        from kvlab.objectscale import s3
    except ImportError as error:
        module.fail_json(
            msg=f"the kvlab package is not importable on this host ({error}); run ./lab, which installs it"
        )
    try:
        yield client(module.params)
    except (BotoCoreError, ClientError, OSError) as error:
        endpoint = module.params["endpoint"]
        if module.check_mode and nothing_there and isinstance(error, EndpointConnectionError):
            module.warn(f"nothing answers at {endpoint}; taken as a store that is empty yet")
            module.exit_json(**nothing_there)
        module.fail_json(msg=f"{about}: {s3.explain(error, endpoint)}")
    except KvlabError as error:
        module.fail_json(msg=str(error))
