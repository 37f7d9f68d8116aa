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
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from tokenizers.processors import TemplateProcessing
from torch import nn
from transformers import AutoModel, PreTrainedTokenizerFast

from telerank.errors import ModelError
from telerank.models.encoders.bi_encoder import BiEncoder, BiEncoderSettings, Side, token_types
from telerank.models.encoders.tokens import SideTokenizer, Tokenizers
from telerank.models.loading import locate, quiet, read_config, read_encoder, read_tokenizer

SETTINGS = "bi_encoder.json"
DOCUMENT = "document"
MODULES = "modules.json"
_SIDE = "sentence_bert_config.json"
_MODEL = "config_sentence_transformers.json"
_ST = "sentence_transformers.models."
_WEIGHTS = "*.safetensors"


def save_bi_encoder(model: BiEncoder, tokenizers: Tokenizers, folder: str | Path) -> None:
    """Write the model into ``folder``, which is created if it does not exist."""
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    _save_encoder(model.query_encoder, root)
    _save_tokenizer(tokenizers.queries, model.query_encoder, root)
    routes = {"query": ["."], "document": ["."]}
    if not _alike(model, tokenizers):
        routes["document"] = [DOCUMENT]
        _save_documents(model, tokenizers, root / DOCUMENT)
    pooling = {  # in the form that every release of sentence-transformers reads
        "word_embedding_dimension": model.width,
        "pooling_mode_cls_token": model.settings.pooling == "cls",
        "pooling_mode_mean_tokens": model.settings.pooling == "mean",
    }
    _write(root / "1_Pooling" / "config.json", pooling)
    ends = ["1_Pooling"]
    if model.settings.normalise:
        (root / "2_Normalize").mkdir(exist_ok=True)
        ends.append("2_Normalize")
    _write_modules(root, {name: [*route, *ends] for name, route in routes.items()})
    query, document = model.settings.query.prompt, model.settings.document.prompt
    record = {
        "prompts": {"query": query, "document": document},
        "default_prompt_name": "query" if query else None,
        "similarity_fn_name": "cosine" if model.settings.normalise else "dot",
    }
    _write(root / _MODEL, record)
    _write(root / SETTINGS, {"shared": model.shared, **model.settings.record()})


def load_bi_encoder(
    name: str | Path, settings: BiEncoderSettings | None = None, *, dropout: float | None = None
) -> tuple[BiEncoder, Tokenizers]:
    """The model of that name, in evaluation mode on the processor, and its tokenizers.

    The settings are those of the folder, if :func:`save_bi_encoder` or sentence-transformers wrote it. Any
    other encoder gets RepBERT's: mean, inner product, 20 and 256 tokens, token types 0 and 1. ``settings``
    overrides them, and ``dropout`` every probability of dropout in the encoder.

    Raises
    ------
    MissingExtra
        If the name is ``minilm`` and its package is not installed.
    ModelError
        If there is no such model, or it does not encode texts.
    """
    folder = locate(name)
    tokenizer = read_tokenizer(folder)
    own, shared = _read_settings(folder, tokenizer)
    encoder = read_encoder(folder, dropout)
    document = None if shared else read_encoder(folder / DOCUMENT, dropout)
    model = BiEncoder(encoder, document, settings=settings or own).eval()
    document_tokenizer = None if shared else read_tokenizer(folder / DOCUMENT)
    return model, Tokenizers.of(tokenizer, model.settings, document_tokenizer)


def fresh_bi_encoder(
    name: str | Path, seed: int, settings: BiEncoderSettings | None = None, *, dropout: float | None = None
) -> tuple[BiEncoder, Tokenizers]:
    """A model of that name's shape and vocabulary with random weights, drawn by ``seed``."""
    folder = locate(name)
    tokenizer = read_tokenizer(folder)
    auto: Any = AutoModel
    with torch.random.fork_rng(), quiet():
        torch.manual_seed(seed)
        encoder = auto.from_config(read_config(folder, dropout))
    model = BiEncoder(encoder, settings=settings or _read_settings(folder, tokenizer)[0]).eval()
    return model, Tokenizers.of(tokenizer, model.settings)


def _read_settings(folder: Path, tokenizer: Any) -> tuple[BiEncoderSettings, bool]:
    """The folder's own settings or RepBERT's, as far as the tokenizer allows; whether weights are shared."""
    if (folder / SETTINGS).exists():
        record = _read(folder / SETTINGS)
        if not isinstance(record, dict) or not isinstance(record.get("shared"), bool):
            raise ModelError(f"{folder / SETTINGS}: these are no settings of a bi-encoder")
        shared = record.pop("shared")
        return BiEncoderSettings.of(record), shared
    if (folder / MODULES).exists():
        return _read_sentence_transformers(folder), True
    longest = tokenizer.model_max_length  # 10^30 if it knows no bound
    return BiEncoderSettings(query=Side(min(20, longest)), document=Side(min(256, longest), segment=1)), True


def _read_sentence_transformers(folder: Path) -> BiEncoderSettings:
    """The settings of a folder of sentence-transformers: a transformer, a pooling, perhaps a normalisation.

    Both sides get its ``max_seq_length``, unless it names a length for each, and token type 0. Its prompts
    for queries or documents, or for all texts, are kept. Raises ModelError if it has another module, or
    another pooling.
    """
    modules = [(str(part["type"]).rsplit(".", 1)[-1], str(part["path"])) for part in _read(folder / MODULES)]
    kinds = [kind for kind, _ in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]) or modules[0][1]:
        raise ModelError(
            f"{folder}: expected Transformer, Pooling and perhaps Normalize, got {', '.join(kinds)}"
        )
    side = _read(folder / _SIDE) if (folder / _SIDE).exists() else {}
    if side.get("do_lower_case"):
        raise ModelError(
            f"{folder / _SIDE}: do_lower_case is not supported; let the tokenizer lower its case"
        )
    length = side.get("max_seq_length") or _longest(folder)
    record = _read(folder / _MODEL) if (folder / _MODEL).exists() else {}
    prompts = record.get("prompts") or {}
    default = prompts.get(record.get("default_prompt_name") or "", "")
    query = prompts.get("query") or default
    names = ("document", "passage", "corpus")
    document = next((prompts[name] for name in names if prompts.get(name)), default)
    return BiEncoderSettings(
        _pooling_name(folder / modules[1][1] / "config.json"),
        normalise="Normalize" in kinds,
        query=Side(side.get("query_length") or length, prompt=query),
        document=Side(side.get("document_length") or length, prompt=document),
    )


def _longest(folder: Path) -> int:
    """The default length of sentence-transformers."""
    tokens = _read(folder / "tokenizer_config.json") if (folder / "tokenizer_config.json").exists() else {}
    positions = _read(folder / "config.json").get("max_position_embeddings")
    known = [n for n in (tokens.get("model_max_length"), positions) if isinstance(n, int)]
    if not known:
        raise ModelError(f"{folder}: neither tokenizer nor configuration gives the longest text")
    return min(known)


def _pooling_name(file: Path) -> str:
    record = _read(file)
    modes = record.get("pooling_mode")
    if modes is None:
        begin, end = "pooling_mode_", "_token"
        on = [name for name, value in record.items() if name.startswith(begin) and value is True]
        modes = [name.removeprefix(begin).split(end)[0] for name in on]
    modes = [modes] if isinstance(modes, str) else list(modes)
    if modes not in (["mean"], ["cls"]):
        raise ModelError(f"{file}: expected pooling by mean or cls, got {', '.join(modes) or 'none'}")
    return str(modes[0])


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
    with quiet():
        encoder.save_pretrained(folder)


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


def _write_modules(root: Path, routes: Mapping[str, Sequence[str]]) -> None:
    kinds = {".": "Transformer", DOCUMENT: "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    if routes["query"] == routes["document"]:
        modules = [(name.strip("."), kinds[name]) for name in routes["query"]]
    else:
        modules = [("", "Router")]
        types = {name: _ST + kinds[name] for route in routes.values() for name in route}
        parameters = {"default_route": "query", "allow_empty_key": True}
        _write(root / "router_config.json", {"types": types, "structure": routes, "parameters": parameters})
    records = [
        {"idx": i, "name": str(i), "path": path, "type": _ST + kind} for i, (path, kind) in enumerate(modules)
    ]
    _write(root / MODULES, records)


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{file}: expected JSON: {error}") from error


def _write(file: Path, record: object) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
