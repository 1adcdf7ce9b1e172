"""Facts about the object store, by who has its keys: topics `s3` and `objectscale` (see checks.store).

`python -m kvlab.doctor.store LAB_FILE` prints topic `s3` for the profile that runs in a lab: over ssh on a GPU host,
whose key need not leave it.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from kvlab.errors import KvlabError
from kvlab.objectscale import namemap, quota, rdma_readiness, s3, smoke, usage
from kvlab.objectscale.plan import Document
from kvlab.probes import key_pair

TRIES = 3
SIZES_NAMED = 8


def object_store(lab: Any, profile: Any, *, simulated: bool) -> dict[str, Any]:
    """Topic `s3` for the bucket of a profile; the probes write under their own prefix and delete it.

    The bucket's quota is not in it: S3 knows none, the management API does.
    """
    endpoint = str(lab["endpoint"])
    facts: dict[str, Any] = {"simulated": simulated, "endpoint": endpoint, "error": None, "skew_s": None}
    endpoints = [str(one) for one in profile.get("endpoints") or [endpoint]]
    facts["endpoints"] = [_timed(one, lab) for one in endpoints]
    client = _client(endpoint, lab)
    try:
        reply = client.list_objects_v2(Bucket=profile["bucket"], MaxKeys=1)["ResponseMetadata"]
    except Exception as error:  # noqa: BLE001  botocore's base is imported late; what went wrong is the fact
        return {**facts, "error": str(s3.explain(error, endpoint)), "smoke": []}
    date = reply["HTTPHeaders"].get("date")
    facts["skew_s"] = parsedate_to_datetime(date).timestamp() - time.time() if date else None
    keys = key_pair(lab["secrets_file"])

    def with_mode(mode: str) -> Any:
        return s3.client(endpoint, *keys, checksums=mode)

    tried = smoke.test(with_mode, str(lab["test_bucket"]))
    facts["smoke"] = [
        {"mode": one.checksums, "works": one.works, "failed": f"{one.step}: {one.seen}" if one.step else None}
        for one in tried
    ]
    facts["bucket"] = _bucket(client, profile)
    return facts


def readiness(lab: Any) -> str | None:
    """What the store makes of an RDMA header."""
    return rdma_readiness.overall(
        rdma_readiness.probe(_client(str(lab["endpoint"]), lab), str(lab["test_bucket"]))
    )


def management(lab: Any, profile: Any, names: Sequence[str], *, simulated: bool) -> dict[str, Any]:
    """Topic `objectscale`, by the management API of a lab whose password is in its own folder of secrets."""
    from kvlab.objectscale import buckets, namespaces, topology, users
    from kvlab.objectscale.management import Management
    from kvlab.objectscale.wire import Access

    state = Path(lab["state_dir"])
    facts: dict[str, Any] = {
        "simulated": simulated,
        "rdma_wanted": profile.get("expected_path") == "rdma",
        "available": False,
    }
    access = Access(
        str(lab["address"]),
        "root",
        (state / "secrets/objectscale_management_password").read_text().strip(),
        port=int(lab["ports"]["management"]),
        ca_path=str(state / "state/objectscale/tls/cert.pem"),
        timeout=5.0,
    )
    facts["verified"] = access.validate_certs
    namespace = str(lab["namespace"])
    user = key_pair(lab["secrets_file"])[0]
    try:
        with Management(access, sleep=lambda _seconds: None) as api:
            facts["version"] = topology.nodes(api)[0].version
            facts["namespace"] = namespaces.find(api, namespaces.Namespace(namespace)) is not None
            facts["user"] = users.find(api, users.ObjectUser(user, namespace)) is not None
            found = {name: buckets.find(api, buckets.Bucket(name, namespace)) for name in names}
    except KvlabError as error:
        return {**facts, "error": str(error), "version": None, "rdma": None}
    facts["buckets"] = {name: one is not None for name, one in found.items()}
    facts["quota_bytes"] = {name: quota_bytes(one) for name, one in found.items() if one is not None}
    return {**facts, "available": True, "error": None, "rdma": readiness(lab)}


def quota_bytes(found: Document) -> int | None:
    """The size at which the array refuses to store more in a bucket; None for no limit."""
    limit = int(namemap.current(namemap.BUCKET, found)["quota_gb"])
    return limit * quota.SMALLEST_GB if limit > 0 else None


def _client(endpoint: str, lab: Any) -> Any:
    return s3.client(endpoint, *key_pair(lab["secrets_file"]))


def _timed(endpoint: str, lab: Any) -> dict[str, Any]:
    """The median of a few signed requests to one endpoint, in milliseconds."""
    client, times = _client(endpoint, lab), []
    for _ in range(TRIES):
        began = time.perf_counter()
        try:
            client.list_objects_v2(Bucket=lab["test_bucket"], MaxKeys=1)
        except Exception as error:  # noqa: BLE001  see object_store
            return {"endpoint": endpoint, "error": str(s3.explain(error, endpoint)), "ms": None}
        times.append((time.perf_counter() - began) * 1000)
    return {"endpoint": endpoint, "error": None, "ms": round(statistics.median(times), 2)}


def _bucket(client: Any, profile: Any) -> dict[str, Any]:
    listed = list(s3.objects(client, profile["bucket"]))
    counted = usage.measure(listed)
    sizes = Counter(found.size for found in listed if found.key != s3.EPOCH_KEY)
    return {
        "name": profile["bucket"],
        "objects": counted.total.objects,
        "bytes": counted.total.bytes,
        "sizes": {str(size): count for size, count in sizes.most_common(SIZES_NAMED)},
        "chunk_bytes": profile.get("slot_bytes") or profile.get("chunk_bytes"),
        "foreign": counted.foreign.objects,
    }


def main(lab_file: Path) -> int:
    """Print topic `s3` of a lab; 1 with a sentence where there is no lab."""
    from kvlab.serving import lab as labs
    from kvlab.serving import profiles

    try:
        found = labs.load(lab_file)
        running = profiles.running(found) or found.configured_profile
        print(json.dumps(object_store(found.data, found.profiles[running], simulated=found.simulated)))
    except KvlabError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
