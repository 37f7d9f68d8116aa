"""A bi-encoder on disk: a Hugging Face folder that ``SentenceTransformer(path)`` opens with the same vectors.

::

    config.json  model.safetensors  tokenizer.json …    the encoder (of queries, if the sides differ)
    document/                                           the encoder of documents, if the sides differ
    bi_encoder.json                                     our settings
    modules.json  1_Pooling/  2_Normalize/ …            the same settings as sentence-transformers reads them

If both sides are alike, ``encode`` gives the vectors of both. If they differ (two towers, token types,
lengths) the folder is a ``Router``: ``encode_query`` and ``encode_document`` give the vectors of each side,
and ``encode`` those of queries. Shared weights are linked, not copied, if the disk has links.
"""

from __future__ import annotations

import json
import shutil
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, PositiveInt, with_config
from tokenizers.processors import TemplateProcessing
from torch import nn
from transformers import PreTrainedTokenizerFast

from telerank.errors import ModelError
from telerank.models.encoders.bi_encoder import (
    BiEncoder,
    BiEncoderSettings,
    Side,
    SideTokenizer,
    Tokenizers,
    token_types,
)
from telerank.models.loading import (
    architecture_of,
    check_encodes,
    draw_encoder,
    locate,
    naming,
    read_config,
    read_encoder,
    read_tokenizer,
    save_weights,
)
from telerank.models.random_numbers import seeded
from telerank.records import read_record
from telerank.sentence_folders import MODEL, MODULES, PREFIX, ModelFile, read_modules, read_part
from telerank_e5 import DOCUMENT as E5_DOCUMENT
from telerank_e5 import QUERY as E5_QUERY

E5_NAMES = ("e5-small", "multilingual-e5-small")
"""Names, and names of folders, of the model: on the hub it does not say what begins a text."""
SETTINGS = "bi_encoder.json"
DOCUMENT = "document"
_SIDE = "sentence_bert_config.json"
_OTHER_HEADS = {
    "ForSequenceClassification": "re-ranks or classifies",
    "ForQuestionAnswering": "marks answers",
}
_WEIGHTS = "*.safetensors"


def save_bi_encoder(model: BiEncoder, tokenizers: Tokenizers, folder: str | Path) -> None:
    """Write the model into ``folder``, which is created if it does not exist."""
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    _save_encoder(model.query_encoder, root)
    _save_tokenizer(tokenizers.queries, model.query_encoder, root)
    _write(
        root / "1_Pooling" / "config.json",
        {  # in the form that every release of sentence-transformers reads
            "word_embedding_dimension": model.width,
            "pooling_mode_cls_token": model.settings.pooling == "cls",
            "pooling_mode_mean_tokens": model.settings.pooling == "mean",
        },
    )
    parts = {"": "Transformer", "1_Pooling": "Pooling"}
    if model.settings.normalise:
        (root / "2_Normalize").mkdir(exist_ok=True)
        parts["2_Normalize"] = "Normalize"
    modules = parts
    if not _alike(model, tokenizers):
        _save_documents(model, tokenizers, root / DOCUMENT)
        _, *ends = parts
        types = {name or ".": PREFIX + kind for name, kind in {**parts, DOCUMENT: "Transformer"}.items()}
        structure = {"query": [".", *ends], "document": [DOCUMENT, *ends]}
        router = {"default_route": "query", "allow_empty_key": True}
        _write(root / "router_config.json", {"types": types, "structure": structure, "parameters": router})
        modules = {"": "Router"}
    records = [
        {"idx": number, "name": str(number), "path": path, "type": PREFIX + kind}
        for number, (path, kind) in enumerate(modules.items())
    ]
    _write(root / MODULES, records)
    query, document = model.settings.query.prompt, model.settings.document.prompt
    _write(
        root / MODEL,
        {
            "prompts": {"query": query, "document": document},
            "default_prompt_name": "query" if query else None,
            "similarity_fn_name": "cosine" if model.settings.normalise else "dot",
        },
    )
    _write(root / SETTINGS, {"shared": model.shared, **model.settings.record()})


def load_bi_encoder(
    name: str | Path, settings: BiEncoderSettings | None = None, *, dropout: float | None = None
) -> tuple[BiEncoder, Tokenizers]:
    """The model of that name, in evaluation mode on the processor, and its tokenizers.

    The settings are those of the folder, if :func:`save_bi_encoder` or sentence-transformers wrote it. One of
    the names :data:`E5_NAMES` has E5's, as far as its folder does not say them:
    mean, cosine, ``query: `` and ``passage: `` before the texts. Any other encoder gets RepBERT's: mean,
    inner product, 20 and 256 tokens, token types 0 and 1. ``settings`` overrides them, and ``dropout`` every
    probability of dropout in the encoder.

    Raises
    ------
    MissingExtra
        If the name is that of an extra's model, and its package is not installed.
    ModelError
        If there is no such model, or it does not encode texts.
    """
    folder = locate(name)
    with naming(folder):
        tokenizer = read_tokenizer(folder)
        own, shared = _read_settings(name, folder, tokenizer)
        encoder = read_encoder(folder, dropout)
        document = None if shared else read_encoder(folder / DOCUMENT, dropout)
        model = BiEncoder(encoder, document, settings=settings or own).eval()
        document_tokenizer = tokenizer if shared else read_tokenizer(folder / DOCUMENT)
        _check_sides(folder, model, tokenizer, document_tokenizer)
        return model, Tokenizers.of(tokenizer, model.settings, document_tokenizer)


def check_makes_vectors(name: str | Path) -> None:
    """Raise ModelError if a model re-ranks or marks answers: it never learned to make vectors."""
    folder = locate(name)
    if (folder / MODULES).exists() or (folder / SETTINGS).exists():
        return
    with naming(folder):
        architecture = architecture_of(read_config(folder, None))
    for ending, does in _OTHER_HEADS.items():
        if architecture.endswith(ending):
            raise ModelError(f"{name} {does}, and makes no vectors: expected an encoder")


def fresh_bi_encoder(
    name: str | Path, seed: int, settings: BiEncoderSettings | None = None, *, dropout: float | None = None
) -> tuple[BiEncoder, Tokenizers]:
    """A model of that name's shape and vocabulary with random weights, drawn by ``seed``."""
    folder = locate(name)
    with naming(folder):
        tokenizer = read_tokenizer(folder)
        own, _ = _read_settings(name, folder, tokenizer)
        with seeded(seed):
            encoder = draw_encoder(folder, dropout)
        model = BiEncoder(encoder, settings=settings or own).eval()
        _check_sides(folder, model, tokenizer, tokenizer)
        return model, Tokenizers.of(tokenizer, model.settings)


def read_settings(name: str | Path) -> BiEncoderSettings:
    """The settings that :func:`load_bi_encoder` gives a model by itself; raises as it does."""
    folder = locate(name)
    with naming(folder):
        return _read_settings(name, folder, read_tokenizer(folder))[0]


def is_for_cosines(name: str | Path) -> bool | None:
    """Whether the model of that name was trained for cosines; None if its folder does not say.

    Raises as loading.
    """
    folder = locate(name)
    if read_settings(name).normalise:
        return True
    similarity = read_part(folder / MODEL, ModelFile).similarity_fn_name
    if similarity in ("cosine", "dot"):
        return similarity == "cosine"
    return False if (folder / SETTINGS).exists() else None


def _check_sides(folder: Path, model: BiEncoder, queries: Any, documents: Any) -> None:
    """Raise ModelError if an encoder cannot compute the tokens of its tokenizer."""
    check_encodes(
        folder, queries, lambda ids, mask: model.encode_queries({"input_ids": ids, "attention_mask": mask})
    )
    check_encodes(
        folder,
        documents,
        lambda ids, mask: model.encode_documents({"input_ids": ids, "attention_mask": mask}),
    )


@with_config(extra="forbid")
@dataclass(frozen=True)
class _StoredSettings(BiEncoderSettings):
    """The content of ``bi_encoder.json``."""

    shared: bool = field(kw_only=True)


def _read_settings(name: str | Path, folder: Path, tokenizer: Any) -> tuple[BiEncoderSettings, bool]:
    """The folder's own settings or RepBERT's, as far as the tokenizer allows; whether weights are shared."""
    if (folder / SETTINGS).exists():
        stored = read_record(folder / SETTINGS, _StoredSettings, ModelError)
        own = {setting.name: getattr(stored, setting.name) for setting in fields(BiEncoderSettings)}
        return BiEncoderSettings(**own), stored.shared
    longest = tokenizer.model_max_length  # 10^30 if it knows no bound
    if (folder / MODULES).exists():
        settings = _read_sentence_transformers(folder)
    elif Path(name).name in E5_NAMES:
        side = Side(min(512, longest))
        settings = BiEncoderSettings(normalise=True, query=side, document=side)
    else:
        settings = BiEncoderSettings(
            query=Side(min(20, longest)), document=Side(min(256, longest), segment=1)
        )
    if Path(name).name in E5_NAMES and not (settings.query.prompt or settings.document.prompt):
        query = replace(settings.query, prompt=E5_QUERY)
        settings = replace(settings, query=query, document=replace(settings.document, prompt=E5_DOCUMENT))
    return settings, True


class SideFile(BaseModel):
    """The part of ``sentence_bert_config.json`` that decides how a text is cut."""

    max_seq_length: PositiveInt | None = None
    query_length: PositiveInt | None = None
    document_length: PositiveInt | None = None
    do_lower_case: bool | None = None


class _PoolingFile(BaseModel, extra="allow"):
    """The configuration of a pooling; old releases have a flag for each mode."""

    pooling_mode: str | list[str] | None = None


def _read_sentence_transformers(folder: Path) -> BiEncoderSettings:
    """The settings of a folder of sentence-transformers: a transformer, a pooling, perhaps a normalisation.

    Both sides get its ``max_seq_length``, unless it names a length for each, and token type 0. Its prompts
    for queries or documents, or for all texts, are kept. Raises ModelError if it has another module, or
    another pooling.
    """
    modules = read_modules(folder)
    kinds = [module.kind for module in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]) or modules[
        0
    ].path not in ("", "."):
        raise ModelError(
            f"{folder}: expected Transformer, Pooling and perhaps Normalize, "
            f"got {', '.join(kinds) or 'nothing'}"
        )
    side = read_part(folder / _SIDE, SideFile)
    if side.do_lower_case:
        raise ModelError(
            f"{folder / _SIDE}: do_lower_case is not supported; let the tokenizer lower its case"
        )
    length = side.max_seq_length or longest_text(folder)
    said = read_part(folder / MODEL, ModelFile)
    query, document = said.sides
    return BiEncoderSettings(
        _pooling_name(folder / modules[1].path / "config.json"),
        normalise=said.divides(kinds, folder),
        query=Side(side.query_length or length, prompt=query),
        document=Side(side.document_length or length, prompt=document),
    )


def longest_text(folder: Path) -> int:
    """The default length of sentence-transformers."""
    tokens = read_part(folder / "tokenizer_config.json", dict[str, Any])
    positions = read_part(folder / "config.json", dict[str, Any]).get("max_position_embeddings")
    known = [n for n in (tokens.get("model_max_length"), positions) if isinstance(n, int) and n > 0]
    if not known:
        raise ModelError(f"{folder}: neither tokenizer nor configuration gives the longest text")
    return min(known)


def _pooling_name(file: Path) -> str:
    record = read_record(file, _PoolingFile, ModelError)
    modes = record.pooling_mode
    if modes is None:
        begin, end = "pooling_mode_", "_token"
        flags = (record.model_extra or {}).items()
        on = [name for name, value in flags if name.startswith(begin) and value is True]
        modes = [name.removeprefix(begin).split(end)[0] for name in on]
    modes = [modes] if isinstance(modes, str) else modes
    if modes not in (["mean"], ["cls"]):
        raise ModelError(f"{file}: expected pooling by mean or cls, got {', '.join(modes) or 'none'}")
    return modes[0]


def _alike(model: BiEncoder, tokenizers: Tokenizers) -> bool:
    """Whether sentence-transformers needs only one module for both sides (prompts may differ)."""
    query, document = model.settings.query, model.settings.document
    same_tokens = tokenizers.queries.tokenizer is tokenizers.documents.tokenizer
    same_types = query.segment == document.segment or token_types(model.query_encoder) < 2
    return model.shared and same_tokens and same_types and query.max_length == document.max_length


def _save_documents(model: BiEncoder, tokenizers: Tokenizers, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    if model.document_encoder is not None:
        _save_encoder(model.document_encoder, folder)
    else:
        for file in [*folder.parent.glob(_WEIGHTS), *folder.parent.glob("*.index.json")]:
            copy = folder / file.name
            copy.unlink(missing_ok=True)
            try:
                copy.hardlink_to(file)
            except OSError:  # a disk without links, or another disk
                shutil.copy(file, copy)
        shutil.copy(folder.parent / "config.json", folder)
    _save_tokenizer(tokenizers.documents, model.document_encoder or model.query_encoder, folder)


def _save_encoder(encoder: Any, folder: Path) -> None:
    for file in folder.glob(_WEIGHTS):  # it may be linked: written over, it would change elsewhere, too
        file.unlink()
    save_weights(encoder, folder)


def _save_tokenizer(side: SideTokenizer, encoder: nn.Module, folder: Path) -> None:
    tokenizer = deepcopy(side.tokenizer)
    if side.side.segment and token_types(encoder) > 1:
        tokenizer = _with_segment(tokenizer, side.side.segment)
    tokenizer.model_max_length = side.side.max_length
    tokenizer.save_pretrained(folder)
    _write(folder / _SIDE, {"max_seq_length": side.side.max_length, "do_lower_case": False})


def _with_segment(tokenizer: Any, segment: int) -> Any:
    """The tokenizer, changed to give the token type itself, for programs that do not read our settings.

    Its class is the general one: BERT's, for example, would restore BERT's token types when it is loaded.
    """
    framed = tokenizer("a", return_special_tokens_mask=True)
    ids, special = framed["input_ids"], framed["special_tokens_mask"]
    pieces = tokenizer.convert_ids_to_tokens(ids)
    first, last = special.index(0), len(special) - special[::-1].index(0)
    inside = [f"{piece}:{segment}" for piece in (*pieces[:first], "$A", *pieces[last:])]
    frame = {(piece, number) for piece, number, own in zip(pieces, ids, special, strict=True) if own}
    backend = tokenizer.backend_tokenizer
    backend.post_processor = TemplateProcessing(
        single=inside, pair=[*inside, f"$B:{segment}"], special_tokens=sorted(frame)
    )
    names = list(dict.fromkeys([*tokenizer.model_input_names, "token_type_ids"]))
    kind: Any = PreTrainedTokenizerFast
    return kind(tokenizer_object=backend, model_input_names=names, **tokenizer.special_tokens_map)


def _write(file: Path, record: object) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
