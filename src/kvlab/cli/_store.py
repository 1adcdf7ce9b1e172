"""Which object store a command works on: the lab's, or one that options or the environment name."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from kvlab.errors import KvlabError


@dataclass(frozen=True)
class Store:
    """A reachable object store. `client` is boto3's; `simulated` where the lab says that it is a stand-in."""

    endpoint: str
    client: Any
    simulated: bool


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that name a store: `endpoint`, `secrets_file` and `ca_bundle`."""
    for option in (
        click.option("--ca-bundle", type=click.Path(path_type=Path), help="PEM file to trust for https."),
        click.option(
            "--secrets-file", type=click.Path(path_type=Path), help='0600 file {"access_key", "secret_key"}.'
        ),
        click.option(
            "--endpoint",
            help="Address of the store. Default: the lab's, else AWS_ENDPOINT_URL; keys likewise, from "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
        ),
    ):
        command = option(command)
    return command


def resolve(endpoint: str | None, secrets_file: Path | None, ca_bundle: Path | None) -> Store:
    """The store that the options name, else the lab's, else the environment's.

    The lab goes before the environment, so that somebody's own AWS settings never decide which bucket is cleaned.
    """
    from kvlab.objectscale import s3
    from kvlab.serving import lab as labs

    lab = labs.find()
    simulated = False
    if endpoint is None and lab is not None:
        endpoint, simulated = str(lab.data["endpoint"]), lab.simulated
        secrets_file = secrets_file or Path(lab.data["secrets_file"])
    endpoint = endpoint or os.environ.get("AWS_ENDPOINT_URL")
    if not endpoint:
        raise KvlabError("which store? Run ./lab up, or give --endpoint, or set AWS_ENDPOINT_URL.")
    keys = _key_pair(secrets_file)
    return Store(
        endpoint, s3.client(endpoint, *keys, verify=str(ca_bundle) if ca_bundle else None), simulated
    )


@contextlib.contextmanager
def explained(store: Store) -> Iterator[None]:
    """What S3 refuses inside becomes one sentence."""
    from botocore.exceptions import BotoCoreError, ClientError

    from kvlab.objectscale import s3

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise s3.explain(error, store.endpoint) from error


def _key_pair(secrets_file: Path | None) -> tuple[str, str]:
    from kvlab.kvcache.files import read_json_object

    if secrets_file is None:
        values: dict[str, Any] = {
            "access_key": os.environ.get("AWS_ACCESS_KEY_ID"),
            "secret_key": os.environ.get("AWS_SECRET_ACCESS_KEY"),
        }
        place = "give --secrets-file, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    else:
        values, place = read_json_object(str(secrets_file)), f"put them into {secrets_file}"
    access, secret = values.get("access_key"), values.get("secret_key")
    if not (isinstance(access, str) and access and isinstance(secret, str) and secret):
        raise KvlabError(f"access key and secret key are missing; {place}.")
    return access, secret
