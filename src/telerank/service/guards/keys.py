"""API keys: which of them a request has."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Iterable, Iterator
from hashlib import sha256

from telerank.service.errors import Unauthorized

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
