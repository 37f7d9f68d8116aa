"""Small late-interaction models: folders as PyLate, sentence-transformers and ColBERT write them; random weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from small_models import WORDS, small_encoder

DIMENSION = 16


def small_late(folder: Path, seed: int = 0, words: Sequence[str] = WORDS, **settings) -> Path:
    """A saved model of our own."""
    from telerank.models.encoders.late_folders import save_late, start_late
    from telerank.models.encoders.late_interaction import LateSettings

    encoder = small_encoder(folder.with_name(f"{folder.name}-encoder"), seed=seed, words=words)
    chosen = LateSettings(**{"query_length": 12, "document_length": 20, "expand_to": 12, **settings})
    save_late(*start_late(encoder, seed, chosen, DIMENSION), folder)
    return folder


def projection(seed: int = 0):
    import torch

    return torch.randn(DIMENSION, 32, generator=torch.Generator().manual_seed(seed)) * 0.3


def small_pylate(folder: Path, architecture: str = "bert", **config) -> Path:
    """As PyLate saves it: the markers are tokens of their own."""
    from safetensors.torch import save_file
    from transformers import AutoModel, AutoTokenizer

    small_encoder(folder, architecture)
    tokenizer, encoder = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    tokenizer.add_tokens(["[Q] ", "[D] "])
    encoder.resize_token_embeddings(len(tokenizer))
    encoder.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "1_Dense").mkdir()
    save_file({"linear.weight": projection()}, folder / "1_Dense" / "model.safetensors")
    identity = "torch.nn.modules.linear.Identity"
    dense = {"in_features": 32, "out_features": DIMENSION, "bias": False, "activation_function": identity}
    (folder / "1_Dense" / "config.json").write_text(json.dumps(dense))
    kinds = [("", "sentence_transformers.models.Transformer"), ("1_Dense", "pylate.models.Dense.Dense")]
    modules = [{"idx": n, "name": str(n), "path": path, "type": kind} for n, (path, kind) in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 19, "do_lower_case": false}')
    settings = {
        "model_type": "ColBERT",
        "prompts": {},
        "similarity_fn_name": "MaxSim",
        "query_prefix": "[Q] ",
        "document_prefix": "[D] ",
        "query_length": 12,
        "document_length": 20,
        "attend_to_expansion_tokens": False,
        "skiplist_words": ["x1", "x2"],
        "do_query_expansion": True,
    }
    (folder / "config_sentence_transformers.json").write_text(json.dumps({**settings, **config}))
    return folder


def small_colbert(folder: Path) -> Path:
    """As ColBERT saves a checkpoint: the projection is among the weights of the encoder."""
    from safetensors.torch import load_file, save_file

    small_encoder(folder)
    weights = {f"bert.{name}": tensor for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file({**weights, "linear.weight": projection()}, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["HF_ColBERT"]}))
    facts = {"query_token_id": "x38", "doc_token_id": "x39", "query_maxlen": 12, "doc_maxlen": 20}
    facts |= {"mask_punctuation": True, "attend_to_mask_tokens": False}
    (folder / "artifact.metadata").write_text(json.dumps(facts))
    return folder
