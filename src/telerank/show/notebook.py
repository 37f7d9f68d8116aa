"""What a notebook shows of rankings, indexes and pipelines: plain HTML, its styles in it, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

_BOX = "border:1px solid #888;border-radius:4px;padding:2px 8px;margin:2px;white-space:nowrap"
_ROW = "display:inline-flex;flex-direction:row;align-items:center"
_COLUMN = "display:inline-flex;flex-direction:column;align-items:stretch"
_FRAME = "border:1px dashed #888;border-radius:4px;padding:2px;margin:2px;text-align:center"


@dataclass(frozen=True)
class Box:
    """A part of a diagram: a text, and the boxes in it, one after the other if they are a ``chain``."""

    text: str
    inner: tuple[Box, ...] = ()
    is_chain: bool = False


def render_diagram(box: Box) -> str:
    """The diagram as HTML: a chain from left to right, other parts one below the other in a frame."""
    if not box.inner:
        return f'<div style="{_BOX}"><code>{escape(box.text)}</code></div>'
    inner = map(render_diagram, box.inner)
    if box.is_chain:
        return f'<div style="{_ROW}">{"<div>→</div>".join(inner)}</div>'
    column = f'<div><div style="{_COLUMN}">{"".join(inner)}</div></div>'
    return f'<div style="{_FRAME}"><code>{escape(box.text)}</code>{column}</div>'


def render_rows(heads: Sequence[str], rows: Iterable[Sequence[object]], caption: str) -> str:
    """A table as HTML."""
    top = "".join(f"<th>{escape(head)}</th>" for head in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(value))}</td>' for value in row)}</tr>" for row in rows)
    table = f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody>"
    return f"<table><caption>{escape(caption)}</caption>{table}</table>"
