"""Addresses: those of the page's own parts, and those of documents that are safe to follow."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

SIZE = 10
"""Results on a page."""


@dataclass(frozen=True)
class Inquiry:
    """What the address of a page asks for; ``None`` stands for the default."""

    query: str = ""
    index: str | None = None
    model: str | None = None
    page: int = 1


@dataclass(frozen=True)
class Links:
    """The addresses of a service below ``prefix``, in the language ``lang`` if the address names one."""

    prefix: str = ""
    lang: str | None = None

    def to(self, path: str, **values: object) -> str:
        """The address of a path (without its first slash) with the values that are set as its query."""
        given = {
            name: value for name, value in {**values, "lang": self.lang}.items() if value not in (None, "")
        }
        query = urlencode({name: str(value) for name, value in given.items()})
        return f"{self.prefix}/{path}{'?' if query else ''}{query}"

    def search(self, inquiry: Inquiry, **changes: object) -> str:
        """The address of the results."""
        return self.to("search", **{**self.values(inquiry), **changes})

    def answer(self, inquiry: Inquiry) -> str:
        """The address of what a reader answers."""
        return self.to("answer", **self.values(inquiry))

    def values(self, inquiry: Inquiry) -> dict[str, object]:
        """An inquiry as the values of an address."""
        page = inquiry.page if inquiry.page > 1 else None
        return {"q": inquiry.query, "index": inquiry.index, "model": inquiry.model, "page": page}

    def document(
        self,
        inquiry: Inquiry,
        docno: str,
        span: tuple[int, int] | None = None,
        *,
        is_answer: bool = False,
        part: int | None = None,
    ) -> str:
        """The address of a document, at the characters of an answer or a passage; or of one of its parts."""
        own = {"at": f"{span[0]}-{span[1]}" if span else None, "kind": "answer" if is_answer else None}
        address = self.to(
            "document", docno=docno, **{**self.values(inquiry), "page": None, **own, "part": part}
        )
        return f"{address}#passage" if span else address

    def explain(self, inquiry: Inquiry, docno: str) -> str:
        """The address of why a document has its rank."""
        return self.to("explain", docno=docno, **self.values(inquiry))

    def static(self, name: str, version: str) -> str:
        """The address of a file of the page, which changes with its content."""
        return f"{self.prefix}/static/{name}?v={version}"


def web_address(url: str) -> str:
    """A document's address if it is one of the web, which a page may link to; empty otherwise."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return ""
    return url.strip() if parts.scheme in ("http", "https") and parts.hostname else ""


def short_address(url: str, length: int = 80) -> str:
    """A web address as it is shown: without its scheme, and cut."""
    shown = url.partition("://")[2].rstrip("/")
    return shown if len(shown) <= length else f"{shown[:length]}…"
