"""Client of ObjectScale's management API: what every resource is read and changed through."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import httpx

from kvlab.objectscale.errors import (
    LoginRefusedError,
    ManagementError,
    NotFoundError,
    UnsupportedError,
    refusal,
)
from kvlab.objectscale.login import is_stale, login, logout
from kvlab.objectscale.plan import Call, Document
from kvlab.objectscale.session import Memory, Session, Store
from kvlab.objectscale.wire import Access, Wire, document


class Management:
    """One array's management API. With a session file the login outlives this object, else leaving it logs out."""

    def __init__(
        self,
        access: Access,
        store: Store | None = None,
        *,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.access = access
        self._store = store or Memory()
        self._leaves = store is None
        self._session: Session | None = None
        self._wire = Wire(access, transport, sleep)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._leaves:
                self.logout()
        finally:
            self._wire.close()

    def send(self, call: Call) -> Document:
        """The reply's document, {} for none. A token that is no longer good means one new login."""
        return self._answer(call)[1]

    def read(self, path: str, about: str, query: Mapping[str, str] | None = None) -> Document:
        return self.send(Call("GET", path, about, query=query or {}))

    def find(
        self,
        path: str,
        about: str,
        query: Mapping[str, str] | None = None,
        absent: Container[int | str | None] = (),
    ) -> Document | None:
        """What stands at the path, None when the array says that it is not there; `absent` are further codes for it."""
        return self.find_by(Call("GET", path, about, query=query or {}), absent)

    def find_by(self, call: Call, absent: Container[int | str | None] = ()) -> Document | None:
        """The same for a call of any form."""
        try:
            return self.send(call)
        except NotFoundError:
            return None
        except ManagementError as error:
            if error.code in absent:
                return None
            raise

    def status_of(self, call: Call) -> int:
        """Send the call; its HTTP status, where that says more than the empty body (202: goes on behind it)."""
        return self._answer(call)[0]

    def login(self) -> Session:
        """The session, by a login if there is none yet."""
        if self._session is None:
            self._session = self._enter(stale=None)
        return self._session

    def logout(self) -> bool:
        """Give the token back and forget it; whether there was one. The file goes even if the array is silent."""
        with self._store.locked():
            session = self._store.load()
            self._session = None
            if session is None:
                return False
            try:
                # A token of another array is not shown to this one; it ends by itself.
                if session.address == self.access.address:
                    logout(self._wire, session.token, self.access.address)
            finally:
                self._store.remove()
        return True

    def remember_groups(self, groups: dict[str, str]) -> None:
        """Keep the replication groups' URNs for the rest of the play."""
        self._session = replace(self.login(), replication_groups=groups)
        with self._store.locked():
            self._store.save(self._session)

    def _answer(self, call: Call) -> tuple[int, Document]:
        reply = self._wire.deliver(call, self.login().token)
        if is_stale(reply.status_code, reply.headers.get("Location", "")):
            self._session = self._enter(stale=self.login().token)
            reply = self._wire.deliver(call, self._session.token)
        said = document(reply)
        if is_stale(reply.status_code, reply.headers.get("Location", "")):
            raise LoginRefusedError(
                f"{call.about}: {self.access.address} refuses the token that it has just given; ask its administrator"
            )
        if not reply.is_success:
            raise refusal(reply.status_code, said, call.about, self.access.address)
        return reply.status_code, self._checked(said, reply, call)

    def _checked(self, said: Any, reply: httpx.Response, call: Call) -> Document:
        if isinstance(said, dict):
            return said
        if reply.content.strip():
            raise UnsupportedError(
                f"{call.about}: {self.access.address} answers something else than a JSON document; ObjectScale 4.x or "
                "ECS 3.8 is needed"
            )
        return {}

    def _enter(self, stale: str | None) -> Session:
        """The stored session, or a new one when there is none of use, or only the one with the `stale` token."""
        address, username = self.access.address, self.access.username
        with self._store.locked():
            left = self._store.load()
            if left and left.token != stale and left.is_for(address, username) and left.is_young(time.time()):
                return left
            if left and left.token != stale and left.address == address:
                logout(self._wire, left.token, address)
            made = login(self._wire, self.access)
            if left and left.address == address:
                made = replace(made, replication_groups=left.replication_groups)
            self._store.save(made)
        return made
