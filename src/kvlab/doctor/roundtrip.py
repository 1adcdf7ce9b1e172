"""A round trip through NIXL in a lab that is up: topics `roundtrip` and `path` (see checks.data and checks.path).

It writes under a key prefix of its own in the lab's test bucket, reads back by both ways, and deletes what it wrote.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

from kvlab.objectscale import s3
from kvlab.objectscale.smoke import PREFIX
from kvlab.probes import access_log, key_pair, run_probe, s3_bucket
from kvlab.serving.lab import Lab

SIZES = (4096, 1 << 20)
TIMEOUT_S = 15.0


def collect(lab: Lab, profile: str) -> dict[str, Any]:
    """Both topics, for the engine and the parameters of a profile that has a bucket."""
    data, about = lab.data, lab.profiles[profile]
    args = json.loads((Path(about["dir"]) / "lmcache.args").read_text())
    params = json.loads(args[args.index("--l2-adapter") + 1])["backend_params"]
    bucket, prefix = str(data["test_bucket"]), f"{PREFIX}doctor-{secrets.token_hex(8)}/"
    transfers: list[dict[str, Any]] = [
        {"op": op, "key": f"{prefix}{size}", "size": size, "seed": f"{prefix}{size}"}
        for size in SIZES
        for op in ("write", "read")
    ]
    job = {
        "engine": about["engine"],
        "endpoint": data["endpoint"],
        "region": data["region"],
        "bucket": bucket,
        "secrets_file": data["secrets_file"],
        "params": params,
        "transfers": transfers,
        "timeout_s": TIMEOUT_S,
    }
    env = {"LD_LIBRARY_PATH": str(data["lib_dir"]), "CUFILE_ENV_PATH_JSON": str(data["cufile_json"])}
    log = Path(data["access_log"])
    store = s3.client(str(data["endpoint"]), *key_pair(data["secrets_file"]))
    mark = access_log.mark(log)
    try:
        facts = run_probe("nixl_roundtrip", job, data["serving_python"], env=env, timeout_s=TIMEOUT_S * 2)
        requests = access_log.read(log, mark, bucket)["requests"]
        keys = sorted({transfer["key"] for transfer in transfers})
        witness = {key: s3_bucket.digest(store, bucket, key) for key in keys}
    finally:
        for transfer in transfers:
            store.delete_object(Bucket=bucket, Key=transfer["key"])
    own = [request for request in requests if str(request["key"]).startswith(prefix)]
    path = {
        "simulated": any(request["simulated"] for request in own) if own else lab.simulated,
        "lab_simulated": lab.simulated,
        "expected_path": about["expected_path"],
        "transfers": facts["transfers"],
        "access_log": own,
    }
    return {"roundtrip": {**facts, "simulated": lab.simulated, "witness": witness}, "path": path}
