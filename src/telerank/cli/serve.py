"""``telerank serve``: serve indexes and models over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer import Argument, Option

from telerank.cli import console


def serve(
    indexes: list[str] | None = Argument(
        None, metavar="[INDEX]...", help="Folders of indexes, or NAME=FOLDER; the first is the default."
    ),
    *,
    config: Path | None = Option(
        None, "--config", readable=False, help="YAML file of settings; options come before it."
    ),
    model: str | None = Option(None, help="Pipeline that is searched if a request names none: name or text."),
    answer: str | None = Option(None, help="Pipeline that answers: name or text that ends in read(READER)."),
    reranker: list[str] | None = Option(None, help="Re-ranker to serve: NAME or NAME=FOLDER."),
    encoder: list[str] | None = Option(None, help="Encoder to serve: NAME or NAME=FOLDER."),
    reader: list[str] | None = Option(None, help="Reader to serve: NAME or NAME=FOLDER."),
    backend: str | None = Option(None, help="Back end of re-rankers: torch (default), openvino or onnx."),
    precision: str | None = Option(None, help="Precision of re-rankers; default: that of the back end."),
    title: str | None = Option(None, help="Name of the service on its page. Default: telerank."),
    host: str | None = Option(None, help="Address to listen on. Default: 127.0.0.1, this machine alone."),
    port: int | None = Option(None, min=0, max=65_535, help="Port to listen on. Default: 8080."),
    workers: int | None = Option(None, min=1, help="Processes. Default: 1."),
    prefix: str | None = Option(None, help="Path below which the service stands, such as /search."),
    key_file: Path | None = Option(
        None, readable=False, help="File of API keys, one a line; those of TELERANK_KEYS are valid, too."
    ),
    allowed_host: list[str] | None = Option(
        None,
        help="Name for which requests are answered, besides localhost and addresses: search.example.org.",
    ),
    cors: list[str] | None = Option(None, help="Origin whose pages may call the service. Default: none."),
    judgments: Path | None = Option(
        None, readable=False, help="File to which the page adds judgments. Default: none."
    ),
    log_queries: bool = Option(False, "--log-queries", help="Log the texts of queries, too."),
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
