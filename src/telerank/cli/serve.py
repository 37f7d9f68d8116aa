"""``telerank serve``: serve indexes and models over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from telerank.cli import console
from telerank.cli.commands import derive
from telerank.parameters import FieldsOf, Flags, Help

_FILES = ("pipelines", "keys", "access", "limits", "batch_tokens")  # of a file of settings, or of keys, alone


@derive
def serve(
    indexes: Annotated[
        list[str] | None,
        Flags("INDEX"),
        Help("Folders of indexes, or NAME=FOLDER; the first is the default."),
    ] = None,
    *,
    config: Annotated[Path | None, Help("YAML file of settings; options come before it.")] = None,
    key_file: Annotated[
        Path | None,
        Help(
            "File of API keys, one a line, perhaps with a filter behind it, within which the key "
            "searches; those of TELERANK_KEYS are valid, too."
        ),
    ] = None,
    **settings: Annotated[
        Any, FieldsOf("telerank.service.settings:ServiceSettings", without=_FILES, only_given=True)
    ],
) -> None:
    """Serve indexes and models over HTTP: a page for people, an API for programs.

    The page is at `/`, the description of the API at `/docs`. It listens on this machine alone, unless
    `--host` says otherwise. Ctrl-C or SIGTERM ends it, after the open requests.

    Example: `telerank serve idx --model "bm25 % 100 >> rerank(my-reranker) % 10" --port 8080`
    """
    import telerank as tr
    from telerank.service.settings import make_settings, name_folders, read_keys, read_settings
    from telerank.verbs.serve import check_indexes

    values: dict[str, Any] = {} if config is None else read_settings(config)
    folders = {"indexes": name_folders(indexes or ())}
    for name in ("rerankers", "encoders", "readers"):
        folders[name] = name_folders(settings.pop(name) or ())
    keys = read_keys(key_file)
    bound = {key: chosen for key, chosen in keys.items() if chosen}
    given = {**folders, **settings, "keys": tuple(key for key in keys if key not in bound), "access": bound}
    values |= {name: value for name, value in given.items() if value not in (None, {}, ())}
    checked = make_settings(values)
    check_indexes(checked)
    console.say(f"serving on http://{checked.host}:{checked.port}{checked.prefix}/ (API: /docs)")
    tr.serve(checked)
