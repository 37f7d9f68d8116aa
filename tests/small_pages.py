"""A service with a page over French documents, as a client in this process or at an address for a browser."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from telerank.types import Doc

DOCS = [
    Doc(
        "F1",
        "La prime d’activité complète les revenus. Elle est versée chaque mois par la Caf.\n"
        "Conditions à remplir\nIl faut avoir plus de 18 ans et travailler en France.",
        "Prime d’activité",
        "https://www.example.org/fiches/F1?a=1&b=2",
    ),
    Doc("F2", "Un apprenti peut demander la prime. Le contrat d’apprentissage dure trois ans.", "Apprenti"),
    Doc("F3", "L’allocation logement dépend des revenus de l’année. " * 12, "Allocation logement"),
    *(Doc(f"G{n}", f"Une fiche sur la prime numéro {n}, et rien d’autre.", f"Fiche {n}") for n in range(25)),
]

HOSTILE = (
    '<script>alert(1)</script><img src=x onerror="alert(2)">',
    "\"><svg onload=alert(3)><a href='javascript:alert(4)'>x</a>",
    "</mark></title></textarea></p><b>bold</b> prime",
    "{{ 7 * 7 }}{% raw %} prime &lt;b&gt; &#60; \u202e evil \u2028 \x00 \x1b",
    "' onmouseover='alert(5)' prime",
)


def hostile_docs() -> list[Doc]:
    return [
        Doc(f"<b>\"'&{n}</b>{n}".replace(" ", ""), f"prime {text} prime\n{text}", f"{text} prime", url)
        for n, (text, url) in enumerate(
            zip(
                HOSTILE,
                (
                    "javascript:alert(6)",
                    "data:text/html,<script>alert(7)</script>",
                    "https://example.org/\"onmouseover='alert(8)'<b>",
                    " JaVaScRiPt:alert(9)",
                    "//example.org/x",
                ),
                strict=True,
            )
        )
    ]


def make_index(folder: Path, docs: list[Doc] = DOCS, analyzer: str = "french") -> Path:
    import telerank as tr

    tr.index(docs, folder, workers=1, analyzer=analyzer)
    return folder


def page_settings(folder: Path, **more: Any):
    from telerank.service.settings import make_settings

    served = {"indexes": {folder.name: folder}, "title": "Fiches", "allowed_hosts": ["testserver"]}
    return make_settings({**served, **more})


@contextmanager
def page_client(settings: Any, language: str = "en") -> Iterator[Any]:
    """A client of a service in this process, as a browser of that language."""
    from fastapi.testclient import TestClient

    from telerank.service.app import create_app

    headers = {"Accept": "text/html", "Accept-Language": language}
    with TestClient(create_app(settings), headers=headers, follow_redirects=False) as client:
        end = time.monotonic() + 120
        while client.get("/health").status_code != 200 and time.monotonic() < end:
            time.sleep(0.02)
        yield client


@contextmanager
def page_address(settings: Any) -> Iterator[str]:
    """The address of a service that listens on this machine until the block ends."""
    import uvicorn

    from telerank.service.app import create_app

    config = uvicorn.Config(create_app(settings), host="127.0.0.1", port=0, log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        end = time.monotonic() + 120
        while not server.started and time.monotonic() < end:
            time.sleep(0.02)
        address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        while not _is_ready(address) and time.monotonic() < end:
            time.sleep(0.05)
        yield address
    finally:
        server.should_exit = True
        thread.join(30)


def _is_ready(address: str) -> bool:
    try:
        with urlopen(f"{address}/health", timeout=10) as reply:
            return reply.status == 200
    except OSError:
        return False


class Outline(HTMLParser):
    """The elements of a page in their order, each with the names of its attributes; and its texts."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def values(self, tag: str, name: str) -> list[str]:
        return [value for element, attribute, value in self.attributes if (element, attribute) == (tag, name)]
