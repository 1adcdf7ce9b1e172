"""Makes src/kvlab/kvcache/known/lmcache-VERSION.json from the published wheels: ci/scan_lmcache_keys.py VERSION...

Downloads each wheel (pip, no dependencies), unpacks it into a temporary folder, and writes the names, types and
defaults of its configuration keys. Nothing of LMCache is imported or kept.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from kvlab.kvcache import knownkeys

TARGET = Path(__file__).parents[1] / "src" / "kvlab" / "kvcache" / "known"


def main(versions: list[str]) -> None:
    if not versions:
        sys.exit(__doc__)
    for version in versions:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--only-binary",
                ":all:",
            ]
            subprocess.run([*command, f"lmcache=={version}", "--dest", name], check=True)
            (wheel,) = folder.glob("lmcache-*.whl")
            zipfile.ZipFile(wheel).extractall(folder)
            keys = knownkeys.scan(folder)
        (TARGET / f"lmcache-{version}.json").write_text(knownkeys.dump(keys), "utf-8")
        print(
            f"{version}: {len(keys.top)} keys, {len(keys.extra)} in extra_config, {len(keys.server_flags)} flags"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
