"""The collection that is installed with telerank, so that everything can be tried at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from telerank.corpus.collection import Collection
from telerank.corpus.formats import open_collection

PIAF = Path(__file__).parent.parent / "data" / "piaf" / "piaf-v1.1.json.gz"


def piaf() -> Collection:
    """PIAF v1.1, whole: paragraphs of the French Wikipedia, and questions asked of them by volunteers.

    Source: piaf.etalab.studio (Etalab; Keraron et al., LREC 2020). Licence: MIT (``data/piaf/LICENSE``).
    """
    source = "PIAF v1.1, Etalab, piaf.etalab.studio; paragraphs of the French Wikipedia"
    return replace(open_collection(PIAF, format="squad"), name="PIAF v1.1", licence="MIT", source=source)
