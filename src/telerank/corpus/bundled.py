"""The collection that is installed with telerank, for trying things out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from telerank.corpus.collection import Collection
from telerank.corpus.formats import open_collection

PIAF = Path(__file__).parent.parent / "data" / "piaf" / "piaf-v1.1.json.gz"


def piaf() -> Collection:
    """All of PIAF v1.1: paragraphs of the French Wikipedia, with questions that volunteers wrote about them.

    Source: piaf.etalab.studio (Etalab; Keraron et al., LREC 2020). Licence: MIT (``data/piaf/LICENSE``).
    """
    source = "PIAF v1.1, Etalab, piaf.etalab.studio; paragraphs of the French Wikipedia"
    return replace(open_collection(PIAF, format="squad"), name="PIAF v1.1", licence="MIT", source=source)
