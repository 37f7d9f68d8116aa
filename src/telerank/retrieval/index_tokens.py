"""The vectors of tokens of an index, which follow its documents (:mod:`telerank.late_interaction.store`)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from telerank.dense.manifest import folder_name
from telerank.errors import (
    ByName,
    IndexFault,
    MissingExtra,
    MissingVectors,
    ModelError,
    count_noun,
    known_names,
)
from telerank.late_interaction.encoder import LateEncoder
from telerank.late_interaction.manifest import TokenManifest, has_tokens
from telerank.model_names import seek_folder
from telerank.retrieval.index_vectors import documents_of
from telerank.retrieval.model_sources import locate_model
from telerank.sparse.index import TOKENS, SparseIndex
from telerank.types import Progress, silent

if TYPE_CHECKING:
    from telerank.late_interaction.stage import MaxSim
    from telerank.late_interaction.store import TokenVectors


def is_late(model: str) -> bool:
    """Whether a name is that of a late-interaction model: a folder, or a name on the hub."""
    from telerank.sentence_folders import late_kind

    folder = seek_folder(model)
    return folder is not None and late_kind(folder) is not None


def list_tokens(index: Path) -> Mapping[str, Path]:
    """The folders of the vectors of tokens in an index, by their names."""
    folders = sorted((index / TOKENS).glob("*"))
    return ByName("vectors of tokens", {folder.name: folder for folder in folders if has_tokens(folder)})


def open_maxsim(
    index: SparseIndex, model: str | None, models: Mapping[str, str | Path] | None = None
) -> MaxSim:
    """The stage over the vectors of a model; None: the only ones there are.

    Raises
    ------
    IndexFault
        If there are none, or several and no name.
    ModelError
        If the model of that name is not the one that made them.
    """
    from telerank.late_interaction.stage import MaxSim
    from telerank.late_interaction.store import TokenVectors

    known = list_tokens(index.folder)
    name = folder_name(model) if model is not None else next(iter(known), "") if len(known) == 1 else ""
    if name not in known:
        named = (
            f"of {model} ({known_names(known, name)})" if model else f"by that name ({known_names(known)})"
        )
        raise IndexFault(f"{index.folder}: no vectors of tokens {named}; encode the index first")
    vectors = TokenVectors(known[name], documents_of(index))
    if vectors.lacking:
        lacking = count_noun(vectors.lacking, "document")
        warnings.warn(
            f"{index.folder}: the vectors of {name} lack {lacking} (encode the index to add them)",
            MissingVectors,
            stacklevel=3,
        )
    encoder = _open_encoder(index.folder, name, vectors.manifest, model, models)
    return MaxSim(vectors, encoder, index.docs, name=name)


def encode_tokens(
    index: SparseIndex,
    encoder: LateEncoder,
    name: str,
    *,
    overwrite: bool = False,
    progress: Progress = silent,
) -> TokenVectors:
    """The vectors of an index in the folder of that name, when every document has some; see ``TokenWriter``.

    Raises
    ------
    IndexFault
        If there are vectors of another model.
    """
    from telerank.late_interaction.store import TokenVectors, TokenWriter

    folder = index.folder / TOKENS / name
    docs = documents_of(index)
    with TokenWriter(folder, lambda: encoder, overwrite=overwrite) as writer:
        if writer.manifest.fingerprint != encoder.fingerprint:
            raise IndexFault(
                f"{folder}: holds vectors of {writer.manifest.model} already: overwrite them (overwrite=True)"
            )
        writer.complete(docs, progress)
        writer.drop(docs)
    return TokenVectors(folder, docs)


def follow_tokens(index: SparseIndex, progress: Progress = silent) -> None:
    """Give the documents of an index vectors in every folder; a warning says if a model is lacking."""
    from telerank.late_interaction.store import TokenWriter

    docs = documents_of(index)
    for name, folder in list_tokens(index.folder).items():
        manifest = TokenManifest.read(folder)
        encoder = _open_encoder(index.folder, name, manifest)
        with TokenWriter(folder, lambda encoder=encoder: encoder) as writer:  # type: ignore[misc]
            try:
                writer.complete(docs, progress)
            except (ModelError, MissingExtra) as error:
                message = f"{index.folder}: the vectors of {name} lack documents: {error}"
                warnings.warn(message, MissingVectors, stacklevel=4)
                continue
            writer.drop(docs)


def describe_tokens(index: SparseIndex) -> dict[str, str]:
    """For each model how many documents and tokens have vectors."""
    from telerank.late_interaction.store import TokenVectors

    described = {}
    for name, folder in list_tokens(index.folder).items():
        vectors = TokenVectors(folder, documents_of(index))
        tokens = sum(part.tokens for part in vectors.manifest.parts)
        size = f"{tokens:,} x {vectors.manifest.dimension} int8 by {vectors.manifest.model}"
        lacking = f"; {count_noun(vectors.lacking, 'document')} without" if vectors.lacking else ""
        described[name] = f"{size}{lacking}"
    return described


def _open_encoder(
    index: Path,
    name: str,
    manifest: TokenManifest,
    model: str | None = None,
    models: Mapping[str, str | Path] | None = None,
) -> LateEncoder:
    """The model of that name, or else the one that the vectors name."""
    source = locate_model(model or name, models=models, index=index)
    is_named = source != (model or name) or Path(source).is_dir()
    return LateEncoder(source if is_named else locate_model(manifest.model, models=models, index=index))
