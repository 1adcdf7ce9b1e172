"""Objects of a bucket as boto3 sees them over plain HTTP: the witness that is independent of NIXL.

Job: {"endpoint", "region", "bucket", "secrets_file", "digests": false}. Runs on the controller (needs boto3).
"""

from __future__ import annotations

import hashlib
from typing import Any

from kvlab.objectscale import s3
from kvlab.probes import Facts, Job, document, key_pair, main


def client(endpoint: str, region: str, secrets_file: str) -> Any:
    """The S3 client of the lab's user, whose key pair stands in `secrets_file`."""
    return s3.client(endpoint, *key_pair(secrets_file), region)


def objects(store: Any, bucket: str) -> list[dict[str, Any]]:
    """Key and size in bytes of every object, by key; the record of the cache epoch is none of them."""
    return [{"key": key, "size": size} for key, size in sorted(s3.kv_keys(store, bucket))]


def body(store: Any, bucket: str, key: str) -> bytes:
    """An object's content."""
    data: bytes = store.get_object(Bucket=bucket, Key=key)["Body"].read()
    return data


def digest(store: Any, bucket: str, key: str) -> str | None:
    """SHA-256 of an object's content; None when there is no such object."""
    try:
        return hashlib.sha256(body(store, bucket, key)).hexdigest()
    except store.exceptions.NoSuchKey:
        return None


def run(job: Job) -> Facts:
    """List the bucket; with `digests`, also each object's SHA-256."""
    from botocore.exceptions import BotoCoreError, ClientError

    store = client(job["endpoint"], job.get("region", "us-east-1"), job["secrets_file"])
    try:
        found = objects(store, job["bucket"])
        if job.get("digests"):
            for entry in found:
                entry["sha256"] = digest(store, job["bucket"], entry["key"])
    except (BotoCoreError, ClientError) as error:
        raise s3.explain(error, job["endpoint"]) from error
    return document("s3_bucket", job.get("simulated"), bucket=job["bucket"], objects=found)


if __name__ == "__main__":
    main(run)
