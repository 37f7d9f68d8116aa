"""Makes the bundled collection, ``src/telerank/data/piaf/piaf-v1.1.json.gz``, from PIAF v1.1 as published.

``python scripts/make_piaf_sample.py ../shared/data/piaf/piaf-v1.1.json.gz``

Nothing is left out: written without blanks and escapes, and packed without a date, all of it fits in the 1 MB
that the package has room for. The same input gives the same content.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "src/telerank/data/piaf/piaf-v1.1.json.gz"
LIMIT = 1_000_000  # bytes


def packed(published: dict[str, Any]) -> bytes:
    text = json.dumps(published, ensure_ascii=False, separators=(",", ":"))
    return gzip.compress(text.encode(), 9, mtime=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("published", type=Path, help="piaf-v1.1.json, plain or packed with gzip")
    parser.add_argument("--target", type=Path, default=TARGET)
    given = parser.parse_args()
    content = given.published.read_bytes()
    sample = packed(json.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content))
    if len(sample) > LIMIT:
        sys.exit(f"{given.published}: {len(sample):,} bytes when packed, the package has room for {LIMIT:,}")
    given.target.write_bytes(sample)
    print(f"{given.target}: {len(sample):,} bytes")


if __name__ == "__main__":
    main()
