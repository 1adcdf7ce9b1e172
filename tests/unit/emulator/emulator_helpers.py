"""What several test modules need."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError


def refused(call: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[str, int]:
    """(code, status) of the S3 error that the call must end in."""
    with pytest.raises(ClientError) as caught:
        call(*args, **kwargs)
    response = caught.value.response
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


def with_md5(client: Any) -> None:
    """Make the client send Content-MD5, as one must towards ECS."""

    def add(request: Any, **_: Any) -> None:
        digest = hashlib.md5(request.body or b"").digest()
        request.headers["Content-MD5"] = base64.b64encode(digest).decode()

    client.meta.events.register("before-sign.s3.*", add)
