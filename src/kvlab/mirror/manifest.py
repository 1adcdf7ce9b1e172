"""manifest.json of a mirror: what is in the folder, by size and sha256.

`kvlab`     version that made it
`stack`     name of the stack
`python`    versions of Python that the wheels are for
`files`     by path in the folder: `bytes`, `sha256`, and `pinned`: whether the hash stands in a lock of the checkout
`systems`   what to mirror of package repositories, by operating system; see mirror_list.yml
`sources`   what must be built from source, and from where; not in the folder
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvlab.errors import KvlabError
from kvlab.mirror.wheels import sha256
from kvlab.whole_file import aside

NAME = "manifest.json"


def write(folder: Path, content: dict[str, Any], pinned: set[str]) -> None:
    """Write the manifest over all files of the folder; `pinned` names those whose hash a lock gave."""
    files = {}
    for name in sorted(listed(folder)):
        path = folder / name
        files[name] = {"bytes": path.stat().st_size, "sha256": sha256(path), "pinned": name in pinned}
    text = json.dumps({**content, "files": files}, indent=1) + "\n"
    with aside(folder / NAME, text.encode(), 0o644) as ready:
        ready.replace(folder / NAME)


def listed(folder: Path) -> set[str]:
    """Paths of the folder's files, but for the manifest and what an interrupted run left."""
    found = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    return {
        str(path) for path in found if str(path) != NAME and not any(p.startswith(".") for p in path.parts)
    }


def read(folder: Path) -> dict[str, Any]:
    """The manifest of a mirror.

    Raises KvlabError when there is none, or it is not one.
    """
    file = folder / NAME
    try:
        content = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise KvlabError(
            f"{folder} is no finished mirror: it has no {NAME}. Run kvlab mirror STACK -o {folder} to its end."
        ) from None
    except (OSError, ValueError) as error:
        raise KvlabError(f"{file} cannot be read ({error}); make the mirror again.") from None
    files = content.get("files") if isinstance(content, dict) else None
    if not isinstance(files, dict) or not all(
        isinstance(one, dict) and isinstance(one.get("sha256"), str) for one in files.values()
    ):
        raise KvlabError(f"{file} is not the manifest of a mirror; make the mirror again.")
    result: dict[str, Any] = content
    return result


def differences(folder: Path) -> list[str]:
    """One sentence for each file that is missing, was changed, or is not in the manifest.

    Raises KvlabError when the folder has no manifest.
    """
    files = read(folder)["files"]
    there = listed(folder)
    out = [f"{name} is missing" for name in sorted(set(files) - there)]
    for name in sorted(set(files) & there):
        found = sha256(folder / name)
        if found != files[name]["sha256"]:
            out.append(f"{name} has sha256 {found}, not {files[name]['sha256']}")
    return out + [f"{name} is not in the manifest" for name in sorted(there - set(files))]
