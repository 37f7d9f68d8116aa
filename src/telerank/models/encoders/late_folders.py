"""Late interaction on disk: folders of PyLate, of sentence-transformers, and ColBERT's own checkpoints.

::

    modules.json  1_Dense/                   PyLate: a Transformer and Dense layers without bias
    config_sentence_transformers.json        query_prefix, document_prefix, query_length, skiplist_words, …
    sentence_bert_config.json  2_…Mask/      sentence-transformers: query_expansion, skiplist_words
    artifact.metadata                        ColBERT: query_token_id, query_maxlen, … beside linear.weight

What is saved is a folder of sentence-transformers, which ``MultiVectorEncoder(path)`` opens.
"""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, PositiveInt
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from telerank.errors import ModelError
from telerank.models.encoders.bi_encoder import rules_of, width
from telerank.models.encoders.late_interaction import LateInteraction, LateSettings, LateTokenizer
from telerank.models.fingerprints import hash_parts
from telerank.models.loading import (
    check_encodes,
    locate,
    naming,
    read_encoder,
    read_tokenizer,
    reading,
    save_weights,
)
from telerank.models.random_numbers import seeded
from telerank.sentence_folders import MODEL, MODULES, late_kind, read_modules, read_part

METADATA = "artifact.metadata"
_SIDE = "sentence_bert_config.json"
_LINEAR, _RESIDUAL = "linear.weight", "residual.weight"
PUNCTUATION = tuple(string.punctuation)
"""What documents have no vectors of."""
_WIDEST = 1 << 14  # dimensions of a projection
_LONGEST = 1 << 15  # tokens
_LATE = "sentence_transformers.multi_vector_encoder.modules.multi_vector_mask.MultiVectorMask"
_BASE = "sentence_transformers.base.modules."


class _Expansion(BaseModel):
    """How sentence-transformers fills queries up."""

    strategy: str
    attend: bool = False
    token: str | None = None
    length: PositiveInt


class _LateSideFile(BaseModel):
    """``sentence_bert_config.json`` of a multi-vector encoder."""

    max_seq_length: PositiveInt | None = None
    query_length: PositiveInt | None = None
    document_length: PositiveInt | None = None
    query_expansion: _Expansion | None = None
    do_lower_case: bool | None = None


class _PyLateFile(BaseModel):
    """What PyLate adds to ``config_sentence_transformers.json``."""

    model_type: str | None = None
    prompts: dict[str, str | None] | None = None
    query_prefix: str | None = None
    document_prefix: str | None = None
    query_length: PositiveInt | None = None
    document_length: PositiveInt | None = None
    do_query_expansion: bool | None = None
    attend_to_expansion_tokens: bool | None = None
    skiplist_words: list[str] | None = None

    @property
    def is_pylate(self) -> bool:
        return self.query_prefix is not None or self.model_type == "ColBERT"


class _MaskFile(BaseModel):
    """The configuration of sentence-transformers' ``MultiVectorMask``."""

    skiplist_words: tuple[str, ...] = ()
    skiplist_tasks: tuple[str, ...] = ("document",)
    keep_only_token_ids: list[int] | None = None


class _DenseFile(BaseModel):
    """The configuration of a ``Dense`` layer."""

    in_features: PositiveInt
    out_features: PositiveInt
    bias: bool = True
    activation_function: str = "torch.nn.modules.linear.Identity"
    use_residual: bool = False


class _Metadata(BaseModel):
    """ColBERT's ``artifact.metadata``."""

    query_token_id: str | None = None
    doc_token_id: str | None = None
    query_maxlen: PositiveInt | None = None
    doc_maxlen: PositiveInt | None = None
    attend_to_mask_tokens: bool | None = None
    mask_punctuation: bool | None = None


def load_late(name: str | Path, *, dropout: float | None = None) -> tuple[LateInteraction, LateTokenizer]:
    """The model of that name, in evaluation mode on the processor, and its tokenizer.

    ``dropout`` overrides every probability of dropout in the encoder.

    Raises
    ------
    ModelError
        If there is no such model, or it has no vectors of tokens.
    """
    folder = locate(name)
    with naming(folder):
        kind = late_kind(folder)
        if kind is None:
            raise ModelError("expected a model with a vector for each token (PyLate, ColBERT)")
        settings = _read_stanford(folder) if kind == "colbert" else _read_settings(folder)
        for length in (settings.query_length, settings.document_length, settings.expand_to):
            if length > _LONGEST:
                raise ModelError(f"expected lengths up to {_LONGEST:,} tokens, got {length:,}")
        tokenizer = read_tokenizer(folder)
        parts = [folder] if kind == "colbert" else _dense_folders(folder)
        layers = [_read_linear(part, is_dense=kind != "colbert") for part in parts]
        model = LateInteraction(read_encoder(folder, dropout), layers, settings).eval()
        late = LateTokenizer(tokenizer, settings)
        _check(folder, model, late)
    return model, late


def start_late(
    name: str | Path,
    seed: int,
    settings: LateSettings | None = None,
    dimension: int = 128,
    *,
    dropout: float | None = None,
    marks: bool = False,
) -> tuple[LateInteraction, LateTokenizer]:
    """An encoder of that name with a random projection, to train.

    With ``marks``, what begins queries and documents gets tokens of its own, if the vocabulary lacks them.

    Raises
    ------
    ModelError
        As :func:`load_late`.
    """
    folder = locate(name)
    with naming(folder):
        tokenizer = read_tokenizer(folder)
        chosen = settings or LateSettings(skipped=PUNCTUATION)
        encoder = read_encoder(folder, dropout)
        with seeded(seed):
            layer = nn.Linear(width(encoder), dimension, bias=False)
            if marks:
                _add_markers(encoder, tokenizer, chosen)
        late = LateTokenizer(tokenizer, chosen)
        model = LateInteraction(encoder, [layer], chosen).eval()
        _check(folder, model, late)
    return model, late


def _add_markers(encoder: Any, tokenizer: Any, settings: LateSettings) -> None:
    """Give both markers a token; the vectors of new tokens are drawn like those of the others."""
    tokenizer.add_tokens([prompt for prompt in (settings.query, settings.document) if prompt])
    if len(tokenizer) > width_of_table(encoder):
        with reading(f"{type(encoder).__name__} takes no further token"):
            encoder.resize_token_embeddings(len(tokenizer))


def save_late(model: LateInteraction, tokenizer: LateTokenizer, folder: Path) -> None:
    """Write the model into a folder, which is made if there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = model.settings
    save_weights(model.encoder, folder)
    tokenizer.tokenizer.save_pretrained(folder)
    parts = [("", f"{_BASE}transformer.Transformer")]
    layers: Any = model.projections
    for number, layer in enumerate(layers, 1):
        layered = folder / f"{number}_Dense"
        layered.mkdir(exist_ok=True)
        save_file({_LINEAR: layer.weight.detach().contiguous()}, layered / "model.safetensors")
        sizes = {"in_features": layer.in_features, "out_features": layer.out_features, "bias": False}
        names = {"module_input_name": "token_embeddings", "module_output_name": "token_embeddings"}
        identity = {"activation_function": "torch.nn.modules.linear.Identity"}
        _write(layered / "config.json", {**sizes, **identity, **names})
        parts.append((layered.name, f"{_BASE}dense.Dense"))
    mask, end = (f"{len(parts) + more}_{name}" for more, name in enumerate(("MultiVectorMask", "Normalize")))
    for name in (mask, end):
        (folder / name).mkdir(exist_ok=True)
    _write(folder / mask / "config.json", {"skiplist_words": settings.skipped})
    _write(folder / end / "config.json", {"module_input_name": "token_embeddings"})
    parts += [(mask, _LATE), (end, f"{_BASE}normalize.Normalize")]
    listed = [{"idx": n, "name": str(n), "path": path, "type": kind} for n, (path, kind) in enumerate(parts)]
    _write(folder / MODULES, listed)
    expansion: dict[str, Any] = {
        "strategy": "fixed" if settings.query_length == settings.expand_to else "min"
    }
    expansion |= {"attend": settings.attend, "token": settings.expand_with, "length": settings.expand_to}
    side = {"query_length": settings.query_length, "document_length": settings.document_length}
    _write(folder / _SIDE, {**side, "query_expansion": expansion if settings.expand_to else None})
    prompts = {"query": settings.query, "document": settings.document}
    kind = {"model_type": "MultiVectorEncoder", "similarity_fn_name": "maxsim"}
    _write(folder / MODEL, {**kind, "prompts": prompts, "default_prompt_name": None})


def fingerprint_late(model: LateInteraction, tokenizer: LateTokenizer) -> str:
    """64 hexadecimal digits of everything that decides the vectors."""
    framed = tokenizer.tokenizer("a b")["input_ids"]
    sides = {"rules": rules_of(tokenizer.tokenizer), "framed": framed}
    return hash_parts({"late": 1, **model.settings.record()}, model.encoder, model.projections, sides)


def _check(folder: Path, model: LateInteraction, tokenizer: LateTokenizer) -> None:
    check_encodes(folder, tokenizer.tokenizer, model)
    rows = [*tokenizer.queries(["a"]), *tokenizer.documents(["a"])]
    most = width_of_table(model.encoder)
    largest = max(token for row in rows for token in row.ids)
    if largest >= most:
        raise ModelError(f"token {largest:,} is not among the {most:,} of the encoder")
    positions = getattr(model.encoder.config, "max_position_embeddings", None)
    longest = max(model.settings.query_length, model.settings.document_length, model.settings.expand_to)
    if isinstance(positions, int) and 0 < positions < longest:
        raise ModelError(f"the encoder reads {positions:,} tokens, and texts have up to {longest:,}")


def width_of_table(encoder: Any) -> int:
    """How many tokens an encoder has vectors of."""
    return int(encoder.get_input_embeddings().weight.shape[0])


def _read_settings(folder: Path) -> LateSettings:
    """The settings of a folder with modules."""
    file, side = read_part(folder / MODEL, _PyLateFile), read_part(folder / _SIDE, _LateSideFile)
    if side.do_lower_case:
        raise ModelError(f"{folder / _SIDE}: do_lower_case is not supported")
    prompts = file.prompts or {}
    if file.is_pylate:
        length = file.query_length or 32
        skipped = PUNCTUATION if file.skiplist_words is None else tuple(file.skiplist_words)
        return LateSettings(
            length,
            file.document_length or 180,
            0 if file.do_query_expansion is False else length,
            bool(file.attend_to_expansion_tokens),
            query="[Q] " if file.query_prefix is None else file.query_prefix,
            document="[D] " if file.document_prefix is None else file.document_prefix,
            skipped=skipped,
        )
    masks = [module.path for module in read_modules(folder) if module.kind == "MultiVectorMask"]
    mask = read_part(folder / masks[0] / "config.json", _MaskFile) if masks else _MaskFile()
    if mask.skiplist_tasks != ("document",) or mask.keep_only_token_ids:
        raise ModelError(f"{folder / masks[0]}: expected a list of words that documents skip alone")
    longest = side.max_seq_length or _longest_text(folder)
    expansion = side.query_expansion
    fixed = expansion is not None and expansion.strategy == "fixed"
    return LateSettings(
        expansion.length if expansion is not None and fixed else side.query_length or longest,
        side.document_length or longest,
        0 if expansion is None else expansion.length,
        expansion is not None and expansion.attend,
        None if expansion is None else expansion.token,
        prompts.get("query") or "",
        prompts.get("document") or "",
        tuple(mask.skiplist_words),
    )


def _read_stanford(folder: Path) -> LateSettings:
    """The settings of a checkpoint of ColBERT (v1 or v2)."""
    facts = read_part(folder / METADATA, _Metadata)
    length = facts.query_maxlen or 32
    return LateSettings(
        length,
        facts.doc_maxlen or 180,
        length,
        bool(facts.attend_to_mask_tokens),
        query=facts.query_token_id or "[unused0]",
        document=facts.doc_token_id or "[unused1]",
        skipped=() if facts.mask_punctuation is False else PUNCTUATION,
    )


def _longest_text(folder: Path) -> int:
    positions = read_part(folder / "config.json", dict[str, Any]).get("max_position_embeddings")
    return positions if isinstance(positions, int) and positions > 0 else 512


def _dense_folders(folder: Path) -> list[Path]:
    """The folders of the linear layers; raises ModelError if there are other modules."""
    modules = read_modules(folder)
    kinds = [module.kind for module in modules]
    dense = kinds.count("Dense")
    known = ["Transformer", *["Dense"] * dense, "MultiVectorMask", "Normalize"]
    if modules[0].path not in ("", ".") or kinds not in (known, known[: 1 + dense], known[: 2 + dense]):
        raise ModelError(
            f"expected Transformer, Dense, MultiVectorMask and Normalize, got {', '.join(kinds)}"
        )
    return [folder / module.path for module in modules if module.kind == "Dense"]


def _read_linear(part: Path, *, is_dense: bool) -> nn.Linear:
    """The layer without bias in a folder."""
    if is_dense:
        file = read_part(part / "config.json", _DenseFile)
        if file.bias or file.use_residual or not file.activation_function.endswith(".Identity"):
            raise ModelError(f"{part}: expected a linear layer without bias, residual and activation")
    weights = part / "model.safetensors"
    with reading(f"{weights}: the projection cannot be read"):
        if weights.exists():
            with safe_open(weights, "pt") as tensors:
                weight = tensors.get_tensor(_LINEAR)
        else:
            weight = torch.load(part / "pytorch_model.bin", map_location="cpu", weights_only=True)[_LINEAR]
    if weight.ndim != 2 or not 0 < max(weight.shape) <= _WIDEST or not torch.isfinite(weight).all():
        raise ModelError(f"{part}: expected a projection, got weights of shape {tuple(weight.shape)}")
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.weight = nn.Parameter(weight.float())
    return layer


def _write(file: Path, record: object) -> None:
    file.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
