"""``telerank serve``: serve indexes and models over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le

from telerank.cli import console
from telerank.cli.commands import derive
from telerank.parameters import Flags, Help


@derive
def serve(
    indexes: Annotated[
        list[str] | None,
        Flags("[INDEX]..."),
        Help("Folders of indexes, or NAME=FOLDER; the first is the default."),
    ] = None,
    *,
    config: Annotated[Path | None, Help("YAML file of settings; options come before it.")] = None,
    model: Annotated[
        str | None, Help("Pipeline that is searched if a request names none: name or text.")
    ] = None,
    answer: Annotated[
        str | None, Help("Pipeline that answers: name or text that ends in read(READER).")
    ] = None,
    reranker: Annotated[list[str] | None, Help("Re-ranker to serve: NAME or NAME=FOLDER.")] = None,
    encoder: Annotated[list[str] | None, Help("Encoder to serve: NAME or NAME=FOLDER.")] = None,
    reader: Annotated[list[str] | None, Help("Reader to serve: NAME or NAME=FOLDER.")] = None,
    backend: Annotated[str | None, Help("Back end of re-rankers: torch (default), openvino or onnx.")] = None,
    precision: Annotated[str | None, Help("Precision of re-rankers; default: that of the back end.")] = None,
    title: Annotated[str | None, Help("Name of the service on its page. Default: telerank.")] = None,
    host: Annotated[str | None, Help("Address to listen on. Default: 127.0.0.1, this machine alone.")] = None,
    port: Annotated[int | None, Ge(0), Le(65_535), Help("Port to listen on. Default: 8080.")] = None,
    workers: Annotated[int | None, Ge(1), Help("Processes. Default: 1.")] = None,
    prefix: Annotated[str | None, Help("Path below which the service stands, such as /search.")] = None,
    key_file: Annotated[
        Path | None, Help("File of API keys, one a line; those of TELERANK_KEYS are valid, too.")
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        Help("Name for which requests are answered, besides localhost and addresses: search.example.org."),
    ] = None,
    cors: Annotated[list[str] | None, Help("Origin whose pages may call the service. Default: none.")] = None,
    judgments: Annotated[Path | None, Help("File to which the page adds judgments. Default: none.")] = None,
    log_queries: Annotated[bool, Help("Log the texts of queries, too.")] = False,
) -> None:
    """Serve indexes and models over HTTP: a page for people, an API for programs.

    The page is at `/`, the description of the API at `/docs`. It listens on this machine alone, unless
    `--host` says otherwise. Ctrl-C or SIGTERM ends it, after the open requests.

    Example: `telerank serve idx --model "bm25 % 100 >> rerank(my-reranker) % 10" --port 8080`
    """
    import telerank as tr
    from telerank.verbs.serve import check_indexes, make_settings, name_folders, read_keys, read_settings

    values: dict[str, Any] = {} if config is None else read_settings(config)
    given: dict[str, Any] = {
        "indexes": name_folders(indexes or ()),
        "model": model,
        "answer": answer,
        "rerankers": name_folders(reranker or ()),
        "encoders": name_folders(encoder or ()),
        "readers": name_folders(reader or ()),
        "backend": backend,
        "precision": precision,
        "title": title,
        "host": host,
        "port": port,
        "workers": workers,
        "prefix": prefix,
        "keys": read_keys(key_file),
        "allowed_hosts": tuple(allowed_host or ()),
        "cors": tuple(cors or ()),
        "judgments": judgments,
        "log_queries": log_queries or None,
    }
    own = {name: value for name, value in given.items() if value not in (None, {}, ())}
    settings = make_settings({**values, **own})
    check_indexes(settings)
    console.say(f"serving on http://{settings.host}:{settings.port}{settings.prefix}/ (API: /docs)")
    tr.serve(settings)
