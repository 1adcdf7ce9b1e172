"""Requests to one management address: TLS, retries, and why there was no answer."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from kvlab.errors import KvlabError
from kvlab.objectscale.errors import UnreachableError, is_retryable
from kvlab.objectscale.plan import Call

PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before each further attempt: a node that restarts a service answers again well within 15 s."""

_REPEATABLE = frozenset({"GET", "PUT", "DELETE"})
"""A POST that broke may have been done: secret keys would be made twice."""


@dataclass(frozen=True)
class Access:
    """Where the management API is and who enters it. `ca_path` is a bundle to trust instead of the system's."""

    host: str
    username: str
    password: str = field(repr=False)
    port: int = 4443
    validate_certs: bool = True
    ca_path: str | None = None
    timeout: float = 30.0

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}"


class Wire:
    """Sends requests and gives every reply, refusals too. Raises UnreachableError when there is none."""

    def __init__(
        self,
        access: Access,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._access = access
        self._sleep = sleep
        # A proxy from the environment is for downloads; an array is in the lab's own network.
        self._http = httpx.Client(
            base_url=access.address,
            verify=_trust(access),
            timeout=access.timeout,
            follow_redirects=False,
            trust_env=False,
            transport=transport,
            headers={"Accept": "application/json"},
        )

    def close(self) -> None:
        self._http.close()

    def deliver(
        self, call: Call, token: str | None = None, login: tuple[str, str] | None = None
    ) -> httpx.Response:
        """Send the call, again after a pause if the array says so or if the connection broke and that is safe."""
        headers = dict(call.headers) | ({"X-SDS-AUTH-TOKEN": token} if token else {})
        for pause in (*PAUSES, None):
            try:
                reply = self._http.request(
                    call.method,
                    call.path,
                    params=dict(call.query),
                    json=call.body,
                    headers=headers,
                    auth=login,
                )
            except httpx.TransportError as error:
                if pause is None or not _may_repeat(call, error):
                    raise UnreachableError(self._why(error)) from None
            else:
                if pause is None or reply.is_success or not is_retryable(document(reply)):
                    return reply
            self._sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _why(self, error: httpx.TransportError) -> str:
        address = self._access.address
        for cause in _causes(error):
            if isinstance(cause, ssl.SSLCertVerificationError):
                return (
                    f"the certificate of {address} is not accepted ({cause.verify_message}); give the array's CA by "
                    "ca_path, and the name that its certificate is for as host"
                )
            if isinstance(cause, ssl.SSLError):
                return f"{address} does not speak TLS; the management API has port 4443 unless it was moved"
            if isinstance(cause, socket.gaierror):
                return f"the name {self._access.host} is not known; correct the host or the name service"
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return (
                f"nothing answers at {address}; check address and port, and that a firewall lets them through"
            )
        if isinstance(error, httpx.TimeoutException):
            return f"{address} gave no answer within {self._access.timeout:g} s; run again, or raise timeout"
        return f"the connection to {address} broke ({error}); run again, what was done is found then"


def document(reply: httpx.Response) -> Any:
    """The JSON of a reply; None when it has none."""
    try:
        return reply.json()
    except ValueError:
        return None


def _may_repeat(call: Call, error: httpx.TransportError) -> bool:
    """Only a connection that was there and broke; a wrong address or certificate does not heal in seconds."""
    return (
        call.method in _REPEATABLE
        and isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError)
        and (not isinstance(error, httpx.ConnectError))
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _trust(access: Access) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=access.ca_path)
    except OSError as error:
        raise KvlabError(
            f"the CA bundle {access.ca_path} cannot be used ({error}); give a file of PEM certificates by ca_path"
        ) from None
    if not access.validate_certs:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
