"""Which bucket and namespace a Host header names: virtual-host style, as ObjectScale has it for its base URLs.

    base URL s3.lab                     bucket.s3.lab/key      s3.lab/bucket/key
    base URL s3.lab, namespace in host  bucket.ns1.s3.lab/key  ns1.s3.lab/bucket/key

Any other host, an IP address above all, is path style.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class BaseUrl:
    """A host name under which buckets are host names, without port; lower case."""

    name: str
    namespace_in_host: bool = False


def locate(host: str, base_urls: Iterable[BaseUrl]) -> tuple[str, str]:
    """(bucket, namespace) in a Host header, with or without port; "" where it names none.

    The longest base URL that fits decides.
    """
    name = host.partition(":")[0].lower()
    for base in sorted(base_urls, key=lambda b: len(b.name), reverse=True):
        if name == base.name:
            return "", ""
        if name.endswith("." + base.name):
            # The host as it was written: bucket names keep their case on ObjectScale.
            before = host[: len(name) - len(base.name) - 1]
            if not base.namespace_in_host:
                return before, ""
            bucket, _, namespace = before.rpartition(".")
            return bucket, namespace
    return "", ""
