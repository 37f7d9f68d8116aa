"""What the command line or a YAML file sets of the service."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, MutableMapping
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator

from telerank.computing import Count
from telerank.errors import CollectionError, FormatError
from telerank.records import Section, describe_error
from telerank.yaml_files import read_yaml

KEYS_VARIABLE = "TELERANK_KEYS"
"""The environment variable with API keys, separated by commas or blanks."""
_NAME = re.compile(r"[\w][\w.:-]*")
HEALTH = frozenset(("/health", "/health/live", "/health/ready"))
"""Always answered: without a key, for any host, whatever else is open."""
OPENAI = frozenset(("/v1/embeddings", "/embeddings", "/v1/models", "/models"))
"""Their clients read the message of an error in an object."""


def _matching(pattern: str, expected: str) -> AfterValidator:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(expected.format(text))
        return text

    return AfterValidator(check)


def _check_network(address: str) -> str:
    ip_network(address, strict=False)
    return address


_Prefix = Annotated[
    str,
    _matching(r"((/[A-Za-z0-9._~-]+)+)?", "expected a path such as /search, without a slash at its end"),
]
_Host = Annotated[
    str,
    _matching(
        r"\*|(\*\.)?[A-Za-z0-9_-][A-Za-z0-9._-]*",
        "expected names such as search.example.org or *.example.org, got {!r}",
    ),
]
_Key = Annotated[str, _matching(r"[!-~]{8,256}", "a key has 8 to 256 visible ASCII characters")]
_Network = Annotated[str, AfterValidator(_check_network)]


class Limits(Section):
    """The most that a request may ask for. Lengths are bytes or characters as named, times seconds."""

    body_bytes: int = Field(default=2_000_000, ge=1)
    body_seconds: float = Field(default=30.0, gt=0)
    """Seconds in which a body must have arrived."""
    header_bytes: int = Field(default=32_768, ge=1_024)
    headers: int = Field(default=100, ge=8)
    header_seconds: float = Field(default=10.0, gt=0)
    """Seconds in which the headers must have arrived."""
    json_depth: int = Field(default=32, ge=2)
    path_bytes: int = Field(default=8_192, ge=64)
    query_characters: int = Field(default=2_000, ge=1)
    pipeline_characters: int = Field(default=1_000, ge=1)
    documents: int = Field(default=1_000, ge=1)
    """Documents of a ranking: ``k`` times ``page``."""
    depth: int = Field(default=1_000, ge=1)
    """Documents that a first stage retrieves for the next stage."""
    reranked: int = Field(default=200, ge=1)
    """Documents that a re-ranker or a reader of a pipeline scores for one query."""
    texts: int = Field(default=1_000, ge=1)
    """Texts that a request for re-ranking or embedding has."""
    text_characters: int = Field(default=122_880, ge=1)
    """Characters of each of them."""
    queue: int = Field(default=512, ge=1)
    """Requests that wait for a process; more are refused with 429."""
    queue_texts: int = Field(default=32_000, ge=1)
    """Texts of requests that wait for one model; more are refused with 429."""
    batch_wait: float = Field(default=0.003, ge=0, le=1)
    """Seconds that a batch waits to be filled, counted from when its oldest request came."""
    seconds: float = Field(default=60.0, gt=0)
    """Seconds after which a request is given up with 503."""
    connections: int = Field(default=1_000, ge=1)
    """Open requests of a process; more are refused with 429."""
    connections_per_address: int = Field(default=200, ge=1)
    """Connections of an address to a process, or its open requests behind a trusted proxy. One more closes
    the oldest whose request has not arrived; if there is none, it is refused with 429."""


class ServiceSettings(Section):
    """Everything that is set of the service; a value.

    ``indexes`` are folders by the names that requests use, the first is searched if none is named.
    ``pipelines`` are texts by name, besides those saved with an index; ``model`` is the pipeline, by name or
    text, that is searched if none is named (None: the index's default). ``answer`` is the pipeline that
    answers. ``rerankers``, ``encoders`` and ``readers`` are models by name: folders, or names that
    ``TELERANK_MODELS``, a package or the hub knows. Those that these pipelines name are served, too.

    Raises
    ------
    CollectionError
        If a value is not as expected; the message names it.
    """

    indexes: Mapping[str, Path] = Field(default_factory=dict)
    model: str | None = None
    answer: str | None = None
    pipelines: Mapping[str, str] = Field(default_factory=dict)
    rerankers: Mapping[str, str] = Field(default_factory=dict)
    encoders: Mapping[str, str] = Field(default_factory=dict)
    readers: Mapping[str, str] = Field(default_factory=dict)

    title: str = Field("telerank", min_length=1, max_length=100)
    """The name of the service on its page."""
    answer_confidence: float = Field(default=0.25, ge=0, le=1)
    """The confidence of an answer below which the page shows it only on a click."""
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65_535)
    prefix: _Prefix = ""
    """Where the service stands below its host, such as ``/search``; empty, or without a slash at its end."""
    allowed_hosts: tuple[_Host, ...] = ()
    """Names for which requests are answered, besides IP addresses, ``localhost``, ``host`` and the name of
    this machine: such as ``search.example.org``, ``*.example.org``, or ``*`` for all."""
    trusted_proxies: tuple[_Network, ...] = ("127.0.0.1", "::1")
    """Addresses or networks of web servers in front: their ``X-Forwarded-For`` and ``X-Forwarded-Proto`` are
    believed, and their connections are not limited."""
    workers: int = Field(default=1, ge=1, le=64)
    threads: int = Field(default=2, ge=1, le=64)
    """Searches that a process runs at a time; models compute in a thread of their own."""
    backend: str | None = None
    precision: str | None = None
    batch_tokens: Count | None = None
    """The back end, precision and tokens of re-rankers whose pipeline names none: those of
    :class:`telerank.computing.Computing`."""
    watch: float = Field(default=1.0, gt=0)
    """Seconds between two looks at the folders of the indexes."""
    grace: float = Field(default=30.0, ge=0)
    """Seconds that open requests have to end after SIGTERM."""

    keys: tuple[_Key, ...] = Field(default=(), repr=False)
    """API keys, of which each request has one; none: every request is served."""
    cors: tuple[str, ...] = ()
    """Origins whose pages may call the service, such as ``https://example.org``."""
    log_queries: bool = False
    """Whether logs hold the texts of queries."""
    judgments: Path | None = None
    """The file to which the page's judgments are added; None: the page takes none."""
    limits: Limits = Limits()

    @property
    def computing(self) -> dict[str, Any]:
        """How re-rankers are computed: the settings of a scorer that are set here, by name."""
        given = {"backend": self.backend, "precision": self.precision, "tokens": self.batch_tokens}
        return {name: value for name, value in given.items() if value is not None}

    @field_validator("indexes", "pipelines", "rerankers", "encoders", "readers")
    @classmethod
    def _check_names(cls, named: Mapping[str, Any]) -> Mapping[str, Any]:
        for name in named:
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r}: a name has letters, digits and . : - _ alone")
        return named

    @model_validator(mode="after")
    def _check_served(self) -> ServiceSettings:
        if not (self.indexes or self.rerankers or self.encoders or self.readers):
            raise ValueError("nothing to serve: name an index or a model")
        return self


def make_settings(values: Mapping[str, Any]) -> ServiceSettings:
    """The settings of these values; raises CollectionError in one line that names the value."""
    try:
        return ServiceSettings.model_validate(values)
    except ValidationError as error:
        raise CollectionError(f"serve: expected {describe_error(error)}") from error


def read_settings(file: str | Path) -> dict[str, Any]:
    """The values in a YAML file.

    Raises
    ------
    FormatError
        If it is not a mapping of names.
    """
    values = read_yaml(file)
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise FormatError(file, None, "settings by name, such as port: 8080")
    return values


def name_folders(given: Iterable[str]) -> dict[str, str]:
    """Folders or models by name: ``NAME=FOLDER``, or a folder, whose last part is its name.

    Raises
    ------
    CollectionError
        If two have one name.
    """
    named: dict[str, str] = {}
    for text in given:
        name, equals, source = text.partition("=")
        if not equals:
            name, source = Path(text).resolve().name if Path(text).is_dir() else text.split("/")[-1], text
        if name in named:
            raise CollectionError(f"serve: {name!r} comes twice: give NAME=FOLDER")
        named[name] = source
    return named


def read_keys(file: str | Path | None) -> tuple[str, ...]:
    """The API keys of a file, one a line (``#`` begins a comment), and of :data:`KEYS_VARIABLE`.

    Raises
    ------
    CollectionError
        If the file or the variable has no key: a service that should have keys is not served without.
    FormatError
        If the file is not UTF-8.
    """
    sources: dict[str, list[str]] = {}
    if file is not None:
        try:
            lines = Path(file).read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise FormatError(file, None, "API keys, one a line, in UTF-8") from error
        own = (line.partition("#")[0].strip() for line in lines)
        sources[str(file)] = [key for key in own if key]
    if KEYS_VARIABLE in os.environ:
        sources[KEYS_VARIABLE] = os.environ[KEYS_VARIABLE].replace(",", " ").split()
    for name, keys in sources.items():
        if not keys:
            raise CollectionError(f"serve: {name} has no API key")
    return tuple(dict.fromkeys(key for keys in sources.values() for key in keys))


def add_prefix(scope: MutableMapping[str, Any], prefix: str) -> None:
    """Let the path of a request begin with ``prefix``, as ASGI has it, also if a proxy has stripped that.

    No path of the service may itself begin with ``prefix`` and a slash: stripped, it would not be completed.
    """
    scope["root_path"] = prefix
    if not scope["path"].startswith(f"{prefix}/"):
        scope["path"] = f"{prefix}{scope['path']}"


def path_of(scope: MutableMapping[str, Any]) -> str:
    """The path of a request below the prefix of the service."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))
