"""What the management side keeps: JSON documents by kind and name, in one private SQLite file."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

from kvlab.errors import KvlabError

Document = dict[str, Any]


class Records:
    """Documents of kinds such as `namespace`, `user`, `keys`. Used from one thread (the event loop's)."""

    def __init__(self, path: Path) -> None:
        try:
            # It holds secret keys, so it is private before the first byte.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=OFF")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS records (kind TEXT NOT NULL, name TEXT NOT NULL, document TEXT NOT NULL,"
                " PRIMARY KEY (kind, name)) WITHOUT ROWID"
            )
        except (OSError, sqlite3.Error) as error:
            raise KvlabError(
                f"the management records {path} cannot be used ({error}); name another state folder with --state"
            ) from None

    def close(self) -> None:
        self._db.close()

    def get(self, kind: str, name: str) -> Document | None:
        """A copy of the document, None when there is none."""
        row = self._db.execute(
            "SELECT document FROM records WHERE kind = ? AND name = ?", (kind, name)
        ).fetchone()
        return json.loads(row[0]) if row else None

    def all(self, kind: str) -> dict[str, Document]:
        """Every document of the kind, by name, in the order of names."""
        rows = self._db.execute("SELECT name, document FROM records WHERE kind = ? ORDER BY name", (kind,))
        return {name: json.loads(document) for name, document in rows}

    def put(self, kind: str, name: str, document: Document) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO records VALUES (?, ?, ?)", (kind, name, json.dumps(document))
        )

    def remove(self, kind: str, name: str) -> None:
        self._db.execute("DELETE FROM records WHERE kind = ? AND name = ?", (kind, name))
