"""A service with a page over French documents, and what a page of HTML has."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise
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


ROLES = {("form", "search"), ("div", "group"), ("ol", "list"), ("ul", "list")}
ROLES |= {(tag, "status") for tag in ("div", "span", "p")}
"""Roles by their elements, which ARIA in HTML allows there."""


def check_page(reply: Any, language: str) -> None:
    """Check that a page is kept to itself, and can be read by a screen reader."""
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["referrer-policy"] == "same-origin"
    page = Outline(reply.text)
    names = {name for _, attributes in page.elements for name in attributes}
    assert not {name for name in names if name.startswith("on") or name == "style"}
    assert not [tag for tag, names in page.elements if tag == "script" and "src" not in names]
    loaded = [
        page.values(tag, name) for tag, name in (("link", "href"), ("script", "src"), ("form", "action"))
    ]
    assert all(value.startswith("/") and not value.startswith("//") for values in loaded for value in values)

    tags = [tag for tag, _ in page.elements]
    assert page.values("html", "lang") == [language]
    assert [tags.count(tag) for tag in ("style", "main", "header", "footer", "title")] == [0, 1, 1, 1, 1]
    headings = [int(tag[1]) for tag in tags if re.fullmatch(r"h[1-6]", tag)]
    assert headings[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(headings))
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    references = ("aria-labelledby", "aria-describedby", "for")
    assert {value for _, name, value in page.attributes if name in references} <= {*ids}
    assert {(tag, value) for tag, name, value in page.attributes if name == "role"} <= ROLES
    assert page.values("a", "href")[0] == "#content"


CONTRAST = """
() => {
  const channel = value => { value /= 255; return value <= .04045 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4 };
  const light = ([r, g, b]) => .2126 * channel(r) + .7152 * channel(g) + .0722 * channel(b);
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const parse = color => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const ground = element => {
    for (let each = element; each; each = each.parentElement) {
      const color = parse(getComputedStyle(each).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255];
  };
  const faults = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || !element.getClientRects().length || element.closest('.hidden, .skip')) continue;
    const style = getComputedStyle(element);
    const [ink, paper] = [light(parse(style.color)), light(ground(element))];
    const ratio = (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
    const size = parseFloat(style.fontSize), bold = parseInt(style.fontWeight) >= 700;
    if (ratio < (size >= 24 || (bold && size >= 18.66) ? 3 : 4.5)) {
      faults.push(`${ratio.toFixed(2)} ${element.className} ${node.data.trim().slice(0, 40)}`);
    }
  }
  return faults;
}
"""
"""A function of JavaScript: the texts of a page whose contrast is less than that of WCAG AA."""
