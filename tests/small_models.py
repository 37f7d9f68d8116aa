"""Real encoders of seven architectures, so small that a test can train them: 32 wide, two layers, random weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

WORDS = [f"{kind}{number}" for kind in "qdx" for number in range(40)]
ARCHITECTURES = ("bert", "camembert", "distilbert", "mpnet", "roberta", "xlm-roberta", "electra")


def small_encoder(
    folder: Path,
    architecture: str = "bert",
    *,
    seed: int = 0,
    longest: int = 66,
    words: Sequence[str] = WORDS,
) -> Path:
    """A folder as the hub has them: configuration, weights, tokenizer. ``longest`` rows has the table of positions."""
    from transformers import AutoModel

    tokenizer = small_tokenizer(architecture, words)
    return _save(folder, architecture, AutoModel, tokenizer, seed=seed, longest=longest, spread=0.2)


def small_masked(
    folder: Path, seed: int = 0, architecture: str = "bert", *, words: Sequence[str] = WORDS
) -> Path:
    """A masked language model with its head, which SPLADE pools."""
    from transformers import AutoModelForMaskedLM

    tokenizer = small_tokenizer(architecture, words)
    return _save(folder, architecture, AutoModelForMaskedLM, tokenizer, seed=seed, longest=66, spread=0.3)


def small_weigher(folder: Path, kind: str = "deepct", *, encoder=None, seed: int = 2, **changes) -> Path:
    """A model of term weights with a random head, whose weights are on both sides of 0."""
    import torch

    from telerank.models.encoders.term_weight_folders import save_term_weights, start_term_weights
    from telerank.models.encoders.term_weights import TermWeightSettings

    start = encoder or small_encoder(folder.with_name(f"{folder.name}-encoder"))
    settings = TermWeightSettings(kind, **{"query_length": 64, "document_length": 64, **changes})
    weigher, tokenizer, _ = start_term_weights(start, settings, seed)
    with torch.no_grad():
        for weight in weigher.head.parameters():
            weight.normal_(0, 0.3, generator=torch.Generator().manual_seed(seed))
    save_term_weights(weigher, tokenizer, settings, folder)
    return folder


def _save(
    folder: Path, architecture: str, kind, tokenizer, *, seed: int, longest: int, spread: float
) -> Path:
    import torch
    from transformers import AutoConfig

    from telerank.models.loading import quiet

    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    if architecture == "distilbert":
        shape = {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64}
    if architecture == "electra":
        shape |= {"embedding_size": 16}
    types = {"type_vocab_size": 2} if architecture in ("bert", "electra") else {}
    if architecture in ("camembert", "roberta", "xlm-roberta"):
        types = {"type_vocab_size": 1}
    if architecture == "longformer":
        types = {"type_vocab_size": 1, "attention_window": 8}
    if architecture == "modernbert":  # layers that see 8 tokens, between those that see all
        types = {
            "local_attention": 8,
            "cls_token_id": 0,
            "bos_token_id": 0,
            "eos_token_id": 2,
            "sep_token_id": 2,
        }
    config = AutoConfig.for_model(
        architecture,
        vocab_size=len(tokenizer),
        max_position_embeddings=longest,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=spread,  # as far from zero as a trained model's
        **shape,
        **types,
    )
    with torch.random.fork_rng(), quiet():
        torch.manual_seed(seed)
        kind.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def small_tokenizer(architecture: str, words: Sequence[str] = WORDS):
    """BERT's own class for BERT; for the others ``<s> … </s>`` with padding 1, as RoBERTa's have it."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertTokenizer, PreTrainedTokenizerFast

    if architecture in ("bert", "distilbert", "electra"):
        names = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
        vocabulary = {word: number for number, word in enumerate((*names, *words))}
        return BertTokenizer(vocab=vocabulary, model_max_length=64)
    names = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    vocabulary = {word: number for number, word in enumerate((*names, *words))}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=False)
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    inputs = ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=64,
        model_input_names=inputs,
        cls_token="<s>",
        sep_token="</s>",
        mask_token="<mask>",
        **special,
    )


def fingerprint_of(name) -> str:
    from telerank.models.encoders.folders import load_bi_encoder
    from telerank.models.fingerprints import fingerprint

    return fingerprint(*load_bi_encoder(name))


def save_vectors(folder: Path, words, table) -> None:
    """Write word vectors, without the rows of padding and the unknown word."""
    import numpy as np

    from telerank.models.pairs.words import SPECIAL, save_vocabulary

    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "vectors.npy", table[SPECIAL:].numpy())
    save_vocabulary(folder / "vocab.txt", words)
