"""``telerank data``: list, show, convert and describe collections; make ranking sets and long documents."""

from __future__ import annotations

from telerank.cli.data.align_passages import align_passages
from telerank.cli.data.contents import convert, ls, show
from telerank.cli.data.make_long_documents import make_far_relevant, make_long_documents
from telerank.cli.data.make_ranking_set import make_ranking_set
from telerank.cli.data.segments import segments
from telerank.cli.data.stats import stats
from telerank.cli.derive import group


@group(
    align_passages,
    convert,
    ls,
    make_far_relevant,
    make_long_documents,
    make_ranking_set,
    segments,
    show,
    stats,
)
def data() -> None:
    """List, show, convert and describe collections; make ranking sets and long documents.

    Example: `telerank data ls scifact`
    """
