"""Whether a store offers S3 over RDMA, asked without any RDMA hardware: a PUT with a token that is none.

A store that knows the header must look at the token and refuse it; one that does not know it stores an empty object
(facts/objectscale.md section 2, an inference that no array has confirmed). It says nothing about the fabric.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvlab.objectscale.smoke import throw_away

HEADERS = ("x-rdma-info", "x-amz-rdma-token")
"""NIXL's Dell engine and LMCache; the name that vendors agreed on."""

BOGUS_TOKEN = "kvlab-readiness-probe"
"""No descriptor by its form, so that no store tries to reach an address in it."""

READY, DECLINED, NOT_OFFERED, UNCLEAR = "ready", "declined", "not offered", "unclear"


@dataclass(frozen=True)
class Readiness:
    """What a store made of one header, and what was seen."""

    header: str
    result: str
    saw: str

    def as_json(self) -> dict[str, str]:
        return {"header": self.header, "result": self.result, "saw": self.saw}


def probe(s3: Any, bucket: str) -> list[Readiness]:
    """Try each header with a throw-away object. Raises botocore's errors from the clean-up alone."""
    return [_probe(s3, bucket, header) for header in HEADERS]


def overall(found: list[Readiness]) -> str:
    """The best result of all headers: a store needs to know only one of them."""
    order = (READY, DECLINED, UNCLEAR, NOT_OFFERED)
    return min((one.result for one in found), key=order.index)


def _probe(s3: Any, bucket: str, header: str) -> Readiness:
    from botocore.exceptions import BotoCoreError, ClientError

    event = "before-sign.s3.PutObject"

    def add(request: Any, **_: Any) -> None:
        request.headers[header] = BOGUS_TOKEN

    with throw_away(s3, bucket) as key:
        s3.meta.events.register(event, add)
        try:
            reply = s3.put_object(Bucket=bucket, Key=key, Body=b"")["ResponseMetadata"]
            return Readiness(header, *judge(reply["HTTPStatusCode"], "", "", reply["HTTPHeaders"]))
        except ClientError as error:
            said, reply = error.response["Error"], error.response["ResponseMetadata"]
            status, headers = reply["HTTPStatusCode"], reply["HTTPHeaders"]
            return Readiness(header, *judge(status, said.get("Code", ""), said.get("Message", ""), headers))
        except BotoCoreError as error:
            return Readiness(header, UNCLEAR, str(error))
        finally:
            s3.meta.events.unregister(event, add)


def judge(status: int, code: str, message: str, headers: Mapping[str, str]) -> tuple[str, str]:
    """The result and what was seen, from the reply to the PUT with the bogus token."""
    reply = headers.get("x-amz-rdma-reply")
    seen = f"HTTP {status}{f' {code}: {message}' if code else ''}, x-amz-rdma-reply {reply or 'absent'}"
    if reply == "501":
        return DECLINED, seen
    if status == 400 and "rdma" in f"{code} {message}".lower():
        return READY, seen
    if status < 300 and reply is None:
        return NOT_OFFERED, seen
    return UNCLEAR, seen
