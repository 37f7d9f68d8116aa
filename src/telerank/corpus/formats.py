"""Every format that telerank reads, in one place; :func:`.collection.open_collection` asks each in turn."""

from __future__ import annotations

from telerank.corpus.collection import Format

FORMATS: tuple[Format, ...] = ()
