"""Run the clients of tests/clients, each in an environment of its own, against a service on this machine.

``python scripts/clients.py [litellm …] [--folder build/clients]`` runs those named, by default all. An
environment is made once, in the folder.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CLIENTS = ROOT / "tests" / "clients"
KEY = "a-key-of-the-clients"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "service")]


def main(folder: Path, names: list[str]) -> int:
    scripts = sorted(CLIENTS.glob("use_*.py"))
    if names:
        scripts = [CLIENTS / f"use_{name}.py" for name in names]
    pythons = {script: environment(folder, script) for script in scripts}
    failed = []
    with tempfile.TemporaryDirectory() as models:
        from small_service import listening

        settings, expected = service(Path(models))
        with listening(settings) as address:
            given = json.dumps({**expected, "address": address})
            for script, python in pythons.items():
                variables = {**os.environ, "TELERANK_EXPECTED": given, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
                variables.pop("PYTHONPATH", None)
                ran = subprocess.run([python, script], env=variables, check=False, timeout=600)
                print(f"{script.stem.removeprefix('use_')}: {'failed' if ran.returncode else 'passed'}")
                failed += [script] * bool(ran.returncode)
    print(f"{len(pythons) - len(failed)} passed, {len(failed)} failed")
    return bool(failed)


def environment(folder: Path, script: Path) -> Path:
    """The Python of a client's environment, which has what the first line of its script requires."""
    required = script.read_text(encoding="utf-8").splitlines()[0]
    packages = re.fullmatch(r"# requires: (.+)", required)
    if packages is None:
        raise SystemExit(f"{script}: expected '# requires: PACKAGES' in its first line, got {required!r}")
    root = folder / script.stem.removeprefix("use_")
    python, done = root / "bin" / "python", root / ".installed"
    if not done.is_file() or done.read_text(encoding="utf-8") != required:
        venv.create(root, with_pip=True, clear=True)
        print(f"{root.name}: installing {packages[1]}", flush=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages[1].split()], check=True)
        done.write_text(required, encoding="utf-8")
    return python


def service(folder: Path) -> tuple[Any, dict[str, Any]]:
    """The settings of a service with small models, and what its clients must get."""
    import numpy as np

    from small_rerankers import pairs
    from small_service import save_models
    from telerank.dense.encoder import TorchEncoder
    from telerank.reranking.scorer import Scorer
    from telerank.service.settings import make_settings

    saved = save_models(folder)
    query, texts = "q1 q2", [text or "d1" for _, text in pairs(12, longest=25)]
    logits = Scorer(str(saved["reranker"])).score([(query, text) for text in texts])
    encoder = TorchEncoder(str(saved["encoder"]))
    vectors = encoder.encode_tokens(encoder.tokenize(texts)[0])
    settings = {
        "rerankers": {"small": str(saved["reranker"])},
        "encoders": {"vectors": str(saved["encoder"])},
        "keys": (KEY,),
    }
    expected = {
        "key": KEY,
        "reranker": "small",
        "encoder": "vectors",
        "query": query,
        "texts": texts,
        "relevance": (1 / (1 + np.exp(-logits))).tolist(),
        "vectors": vectors.tolist(),
        "unit_vectors": (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).tolist(),
    }
    return make_settings(settings), expected


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "clients")
    given = parser.parse_args()
    raise SystemExit(main(given.folder, given.names))
