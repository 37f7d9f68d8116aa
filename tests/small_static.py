"""Small static encoders: folders as Model2Vec and sentence-transformers write them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

WORDS = [f"word{number}" for number in range(60)]


def small_pieces(unknown: str | None = "[UNK]"):
    """A tokenizer of words and of their parts."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    names = [*([unknown] if unknown else []), "[PAD]", *WORDS, "##s"]
    vocabulary = {name: number for number, name in enumerate(names)}
    model = models.WordPiece(vocabulary, unk_token=unknown) if unknown else models.WordLevel(vocabulary)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_padding(pad_id=1, pad_token="[PAD]")  # which counts no piece
    return tokenizer


def small_tables(kind: str = "plain", dimension: int = 16, seed: int = 0) -> dict[str, np.ndarray]:
    """``plain``, ``float16``, ``int8``, or ``quantised``: a row for several pieces, and a weight for each."""
    random, pieces = np.random.default_rng(seed), small_pieces().get_vocab_size()
    table = random.normal(size=(pieces, dimension)).astype(np.float32)
    if kind == "float16":
        return {"embeddings": table.astype(np.float16)}
    if kind == "int8":
        return {"embeddings": np.rint(table * 30).astype(np.int8)}
    if kind == "quantised":
        weights = random.uniform(0.1, 2, pieces).astype(np.float32)
        return {
            "embeddings": table[:20].copy(),
            "mapping": random.integers(0, 20, pieces).astype(np.int32),
            "weights": weights,
        }
    return {"embeddings": table}


def small_model2vec(folder: Path, kind: str = "plain", **config) -> Path:
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    save_file(small_tables(kind), folder / "model.safetensors")
    small_pieces().save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec", "normalize": True, **config}))
    modules = [{"idx": 0, "name": "0", "path": ".", "type": "sentence_transformers.models.StaticEmbedding"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


def small_sentence_model(
    folder: Path,
    *,
    normalise: bool = True,
    prompts: dict[str, str] | None = None,
    similarity: str = "cosine",
) -> Path:
    """As ``SentenceTransformer(modules=[StaticEmbedding(…), Normalize()]).save(folder)`` writes it."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Normalize
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    table = small_tables()["embeddings"]
    modules = [StaticEmbedding(small_pieces(), table), *([Normalize()] if normalise else [])]
    model = SentenceTransformer(modules=modules, device="cpu", prompts=prompts, similarity_fn_name=similarity)
    model.save(str(folder), create_model_card=False)
    return folder
