"""Who may ask: the hosts for which requests are answered, the proxies that are believed, API keys."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import socket
from collections.abc import Iterable, Iterator
from hashlib import sha256
from ipaddress import ip_address, ip_network

from telerank.errors import shorten
from telerank.service.errors import Misdirected, Unauthorized

Headers = Iterable[tuple[bytes, bytes]]


class KeyRing:
    """The keys of the service, as their hashes: comparing takes the same time whatever is given."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = [sha256(key.encode()).digest() for key in keys]

    def check(self, headers: Headers) -> None:
        """Check that a request has a key; without keys, every request is served.

        ``Authorization`` has it as ``Bearer KEY``, as ``KEY`` alone, or as the password of ``Basic``;
        or ``X-API-Key`` has it.

        Raises
        ------
        Unauthorized
            If it has none, or an unknown one.
        """
        if not self._digests:
            return
        given = list(_given_keys(headers))
        if not sum(map(self._count, given)):
            raise Unauthorized("unknown API key" if given else "no API key: send Authorization: Bearer KEY")

    def _count(self, key: bytes) -> int:
        """How many of the keys it is; all are compared."""
        digest = sha256(key).digest()
        return sum(hmac.compare_digest(digest, known) for known in self._digests)


def _given_keys(headers: Headers) -> Iterator[bytes]:
    for name, value in headers:
        if name == b"x-api-key":
            yield value.strip()
        elif name == b"authorization":
            scheme, _, rest = value.strip().partition(b" ")
            if scheme.lower() == b"bearer":
                yield rest.strip()
            elif scheme.lower() == b"basic":
                yield _password(rest)
            else:
                yield value.strip()


def _password(credentials: bytes) -> bytes:
    try:
        return base64.b64decode(credentials, validate=True).partition(b":")[2]
    except binascii.Error:
        return b""


_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::\d*)?")


class ServedHosts:
    """The hosts for which requests are answered: IP addresses, this machine's names, and those allowed.

    A page of another name that is made to lead here (DNS rebinding) must not read or write as if it were
    the service's own. An address is no name, so nobody else can make it lead here.
    """

    def __init__(self, allowed: Iterable[str], host: str) -> None:
        names = {"localhost", socket.gethostname(), host, *allowed}
        self._names = {name.lower().rstrip(".") for name in names}
        self._domains = tuple(name[1:] for name in self._names if name.startswith("*"))

    def check(self, headers: Headers) -> None:
        """Check the host of a request; HTTP/1.0 has none, and no browser speaks that.

        Raises
        ------
        Misdirected
            If it is another one.
        """
        for header, value in headers:
            if header == b"host" and not self._has(value.decode("latin1")):
                raise Misdirected(
                    f"the host {shorten(value.decode('latin1'))} is not served: see allowed_hosts"
                )

    def _has(self, host: str) -> bool:
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = (match["v6"] or match["name"]).lower().rstrip(".")
        return name in self._names or name.endswith(self._domains) or _is_address(name)


class TrustedProxies:
    """Proxies by address or network; what they say of a client (``X-Forwarded-For``) is believed."""

    def __init__(self, proxies: Iterable[str]) -> None:
        self._networks = [ip_network(proxy, strict=False) for proxy in proxies]

    def __contains__(self, address: str) -> bool:
        return _is_address(address) and any(ip_address(address) in network for network in self._networks)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
