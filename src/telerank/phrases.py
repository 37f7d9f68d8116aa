"""Texts that keep what they were made of, so that another language can say the same."""

from __future__ import annotations

from typing import Any, Self


class Phrase(str):
    """A text made of a template and facts: ``Phrase("rank {n}", n=3)`` is the text ``rank 3``.

    Another language finds its own words by ``template``, and puts the same ``facts`` into them.
    """

    __slots__ = ("facts", "template")
    template: str
    facts: dict[str, Any]

    def __new__(cls, template: str, /, **facts: Any) -> Self:
        phrase = super().__new__(cls, template.format(**facts))
        phrase.template, phrase.facts = template, facts
        return phrase

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (self.template,), self.facts
