"""Looks for secrets in every file that git holds: ci/audit_secrets.py [FILE...]

.secrets.baseline names what only looks like one, each entry looked at by a person ("is_secret": false): keys of tests,
digests, names of variables. Of detect-secrets' plugins the one for hexadecimal strings is off, since the tree is full
of SHA-256 and no secret of this lab is hexadecimal; so are the lock files, which are digests throughout. Exit 1 with
file and line of each finding that the baseline does not name. Before it looks, it proves that it sees: a planted key
and a planted password must be found, else it ends with 2.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
BASELINE = ROOT / ".secrets.baseline"
HOOK = ROOT / ".cache/audit-tools/bin/detect-secrets-hook"  # ci/audit makes it
LINES_MOVED = 3
"""detect-secrets-hook's status when it only wants to write new line numbers into the baseline."""


def files() -> list[str]:
    """Every file of the tree, committed or about to be."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [
        name
        for name in listed.split("\0")
        if name and (ROOT / name).is_file() and not name.endswith(".lock") and name != BASELINE.name
    ]


def scan(names: list[str], folder: Path) -> tuple[bool, str]:
    """Whether `names` (below `folder`) are free of secrets that the baseline does not name, and what was found."""
    with tempfile.TemporaryDirectory() as scratch:
        # The hook writes line numbers into its baseline; ours changes by a person's hand alone.
        copy = shutil.copy(BASELINE, Path(scratch, BASELINE.name))
        command: list[str | Path] = [HOOK, "--no-verify", "--baseline", copy, *names]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    clean = done.returncode in (0, LINES_MOVED)
    return clean, "" if clean else (done.stdout + done.stderr).strip()


def sees() -> bool:
    """Whether planted secrets are found; they are put together here, so that this file holds none."""
    with tempfile.TemporaryDirectory() as scratch:
        planted = {
            "key.pem": "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n",
            "vars.yml": "objectscale_pass" + 'word: "correct-horse-battery"\n',
        }
        for name, content in planted.items():
            Path(scratch, name).write_text(content, "utf-8")
        return not any(scan([name], Path(scratch))[0] for name in planted)


def main(names: list[str]) -> int:
    """Scan and tell."""
    if not sees():
        print(
            "audit: detect-secrets did not find the secrets that were planted for it; its result counts for nothing"
        )
        return 2
    chosen = names or files()
    clean, told = scan(chosen, ROOT)
    if clean:
        print(f"audit: no secret in {len(chosen)} files")
        return 0
    print(told)
    print(
        "audit: take the secret out, and change it wherever it is used. If it is none, add it to .secrets.baseline: "
        "detect-secrets scan --baseline .secrets.baseline FILE, then is_secret: false."
    )
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
