"""A small BEIR folder ``set`` and two runs of it, ``a.run`` and ``b.run``, for tests of many commands."""

from __future__ import annotations

import json
from pathlib import Path


def write_small_set(folder: Path) -> None:
    (folder / "set/qrels").mkdir(parents=True)
    docs = (json.dumps({"_id": f"d{n}", "text": f"w{n} w{n % 3}"}) for n in range(6))
    (folder / "set/corpus.jsonl").write_text("\n".join(docs))
    queries = (json.dumps({"_id": f"q{n}", "text": f"w{n}"}) for n in range(4))
    (folder / "set/queries.jsonl").write_text("\n".join(queries))
    qrels = "".join(f"q{n}\td{n}\t1\n" for n in range(4))
    (folder / "set/qrels/test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{qrels}")
    for name in "ab":
        lines = (f"q{n} Q0 d{(n + i) % 6} 1 {6 - i} t\n" for n in range(4) for i in range(4))
        (folder / f"{name}.run").write_text("".join(lines))
