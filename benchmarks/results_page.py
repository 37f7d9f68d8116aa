"""The pages of ``docs/results``: a benchmark writes between its markers, and the rest of the page stays."""

from __future__ import annotations

import sys
from pathlib import Path

RESULTS = Path(__file__).parent.parent / "docs" / "results"


def write(page: str, section: str, text: str) -> None:
    """Put the text between ``<!-- section: begin -->`` and ``<!-- section: end -->`` of ``page``.md."""
    path = RESULTS / f"{page}.md"
    opening, closing = f"<!-- {section}: begin -->", f"<!-- {section}: end -->"
    before, begin, rest = path.read_text(encoding="utf-8").partition(opening)
    _, end, after = rest.partition(closing)
    if not begin or not end:
        sys.exit(f"{path}: expected the markers {opening} and {closing}")
    path.write_text(f"{before}{begin}\n{text.rstrip()}\n{end}{after}", encoding="utf-8")
