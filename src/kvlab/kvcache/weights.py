"""The identity of the weights in a model directory, cheap enough for every run of a playbook."""

from __future__ import annotations

import hashlib
from pathlib import Path

from kvlab.errors import KvlabError

SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
DESCRIBING = ("config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json")
"""What decides beside the weights which KV belongs to which text."""

SAMPLES = 64
SAMPLE_BYTES = 65536
"""Per file 4 MiB at most. Training changes tensors throughout, so samples tell checkpoints apart."""


def revision(folder: str) -> str:
    """SHA-256 in hexadecimal over the describing files and samples of every weight file.

    Raises:
        KvlabError: the folder holds no weights, or they cannot be read.
    """
    total = hashlib.sha256()
    try:
        files = sorted(path for path in Path(folder).iterdir() if path.suffix in SUFFIXES)
        if not files:
            raise KvlabError(f"{folder} holds no weights ({', '.join(SUFFIXES)}); name a model directory.")
        for name in DESCRIBING:
            file = Path(folder, name)
            if file.is_file():
                total.update(f"{name}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
        for file in files:
            total.update(f"{file.name}\0{file.stat().st_size}\0{_sampled(file)}\n".encode())
    except OSError as error:
        raise KvlabError(f"the weights in {folder} cannot be read: {error.strerror}.") from None
    return total.hexdigest()


def _sampled(file: Path) -> str:
    """Hash of evenly spread samples, the first and the last bytes among them; of the whole of a small file."""
    found = hashlib.sha256()
    last = max(0, file.stat().st_size - SAMPLE_BYTES)
    with file.open("rb") as stream:
        for offset in sorted({last * step // (SAMPLES - 1) for step in range(SAMPLES)}):
            stream.seek(offset)
            found.update(stream.read(SAMPLE_BYTES))
    return found.hexdigest()
