"""What a stage's rankings depend on, as a text: kept runs are reused only if it is the same."""

from __future__ import annotations

import json

from telerank.stage import Stage, walk_stages


def identify_stage(stage: Stage) -> str:
    """The stage as a text, and the content of what it reads: indexes, vectors, models, files."""
    sources = [part.sources for part in walk_stages(stage)]
    return json.dumps([stage.text, sources], ensure_ascii=False, default=repr)
