"""Names and addresses: for which hosts requests are answered, and which proxies are believed."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from ipaddress import ip_address, ip_network

from telerank.errors import shorten
from telerank.service.errors import Misdirected
from telerank.service.guards.keys import Headers

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
