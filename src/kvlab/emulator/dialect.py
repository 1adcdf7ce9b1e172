"""Where ObjectScale differs from AWS S3, as named switches (facts: docs/fidelity.md)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dialect:
    """Each switch is True for ObjectScale's behaviour and False for AWS's."""

    name: str
    refuse_checksum_trailers: bool  # aws-chunked bodies with a checksum trailer: XAmzContentSHA256Mismatch
    require_content_md5: bool  # DeleteObjects and bucket lifecycle without Content-MD5 are refused
    range_put: bool  # a Range header on PUT appends to or updates an object
    wide_bucket_names: bool  # 1-255 characters, upper case and '_' allowed
    emc_headers: bool  # x-emc-* headers have their meaning; without it they are ignored
    region_ignored: bool  # any region in the credential scope is accepted
    utf16_order: bool  # listings are ordered by UTF-16 code units, not by UTF-8 bytes
    rdma: bool  # x-rdma-info and x-amz-rdma-token are understood


OBJECTSCALE = Dialect("objectscale", True, True, True, True, True, True, True, True)
AWS = Dialect("aws", False, False, False, False, False, False, False, False)
DIALECTS = {d.name: d for d in (OBJECTSCALE, AWS)}
