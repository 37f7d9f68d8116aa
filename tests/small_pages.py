"""A service with a page over French documents, and what a page of HTML has."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from small_service import serving, settings_of
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


def page_settings(folder: Path, **more: Any):
    return settings_of(folder, **{"title": "Fiches", **more})


def page_client(settings: Any, language: str = "en"):
    """A client of a service in this process, as a browser of that language."""
    headers = {"Accept": "text/html", "Accept-Language": language}
    return serving(settings, headers=headers, follow_redirects=False)


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
