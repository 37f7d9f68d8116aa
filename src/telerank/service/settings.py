"""What the command line or a YAML file sets of the service."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, MutableMapping
from importlib.util import find_spec
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, ValidationError, model_validator

from telerank.columns.filters import Filter
from telerank.computing import Count
from telerank.errors import CollectionError, FilterError, FormatError
from telerank.model_names import READER, has_default
from telerank.parameters import Flags, Help
from telerank.records import Section, describe_error
from telerank.yaml_files import read_yaml

KEYS_VARIABLE = "TELERANK_KEYS"  # the environment variable with API keys, separated by commas or blanks
# always answered: without a key, for any host, whatever else is open
HEALTH = frozenset(("/health", "/health/live", "/health/ready"))
# where a request has the filter that its key is bound to
ACCESS = "telerank.access"
# their clients read the message of an error in an object
OPENAI = frozenset(("/v1/embeddings", "/embeddings", "/v1/models", "/models"))


Value = TypeVar("Value")


def _matching(pattern: str, expected: str) -> AfterValidator:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(expected.format(text))
        return text

    return AfterValidator(check)


def _check_network(address: str) -> str:
    ip_network(address, strict=False)
    return address


def _check_names(named: Mapping[str, Value]) -> Mapping[str, Value]:
    for name in named:
        if not re.fullmatch(r"[\w][\w.:-]*", name):
            raise ValueError(f"{name!r}: a name has letters, digits and . : - _ alone")
    return named


Named = Annotated[Mapping[str, Value], AfterValidator(_check_names)]
_Host = Annotated[
    str,
    _matching(
        r"\*|(\*\.)?[A-Za-z0-9_-][A-Za-z0-9._-]*",
        "expected names such as search.example.org or *.example.org, got {!r}",
    ),
]
_Key = Annotated[str, _matching(r"[!-~]{8,256}", "a key has 8 to 256 visible ASCII characters")]


def _check_filter(text: str) -> str:
    return Filter.parse(text).text


_Filter = Annotated[str, AfterValidator(_check_filter)]
_Network = Annotated[str, AfterValidator(_check_network)]


class Limits(Section):
    """The most that a request may ask for. Lengths are bytes or characters as named, times seconds."""

    body_bytes: int = Field(default=2_000_000, ge=1)
    body_seconds: Annotated[float, Help("Seconds in which a body must have arrived.")] = Field(
        default=30.0, gt=0
    )
    header_bytes: int = Field(default=32_768, ge=1_024)
    headers: int = Field(default=100, ge=8)
    header_seconds: Annotated[float, Help("Seconds in which the headers must have arrived.")] = Field(
        default=10.0, gt=0
    )
    json_depth: int = Field(default=32, ge=2)
    path_bytes: int = Field(default=8_192, ge=64)
    query_characters: int = Field(default=2_000, ge=1)
    pipeline_characters: int = Field(default=1_000, ge=1)
    documents: Annotated[int, Help("Documents of a ranking: `k` times `page`.")] = Field(default=1_000, ge=1)
    depth: Annotated[int, Help("Documents that a first stage retrieves for the next stage.")] = Field(
        default=1_000, ge=1
    )
    reranked: Annotated[
        int, Help("Documents that a re-ranker or a reader of a pipeline scores for one query.")
    ] = Field(default=200, ge=1)
    texts: Annotated[int, Help("Texts of a request for re-ranking or embedding.")] = Field(
        default=1_000, ge=1
    )
    text_characters: Annotated[int, Help("Characters of each of them.")] = Field(default=122_880, ge=1)
    queue: Annotated[int, Help("Requests that wait for a process; more are refused with 429.")] = Field(
        default=512, ge=1
    )
    queue_texts: Annotated[
        int, Help("Texts of requests that wait for one model; more are refused with 429.")
    ] = Field(default=32_000, ge=1)
    batch_wait: Annotated[
        float, Help("Seconds that a batch waits to be filled, counted from when its oldest request came.")
    ] = Field(default=0.003, ge=0, le=1)
    seconds: Annotated[float, Help("Seconds after which a request is given up with 503.")] = Field(
        default=60.0, gt=0
    )
    connections: Annotated[int, Help("Open requests of a process; more are refused with 429.")] = Field(
        default=1_000, ge=1
    )
    connections_per_address: Annotated[
        int,
        Help(
            "Connections of an address to a process, or its open requests behind a trusted proxy. One more "
            "closes the oldest whose request has not arrived; if there is none, it is refused with 429."
        ),
    ] = Field(default=200, ge=1)


class ServiceSettings(Section):
    """Everything that is set of the service; a value.

    ``indexes`` are folders by the names that requests use, the first is searched if none is named.
    ``pipelines`` are texts by name, besides those saved with an index. ``rerankers``, ``encoders`` and
    ``readers`` are models by name: folders, or names that ``TELERANK_MODELS``, a package or the hub knows.
    Those that the pipelines name are served, too. How re-rankers whose pipeline says nothing of it are
    computed is that of :class:`telerank.computing.Computing`: ``batch_tokens`` are its ``tokens``. Of
    ``allowed_hosts`` ``*.example.org`` and ``*`` stand for many.

    Raises
    ------
    CollectionError
        If a value is not as expected; the message names it.
    """

    indexes: Named[Path] = Field(default_factory=dict)
    model: Annotated[str | None, Help("Pipeline that is searched if a request names none: name or text.")] = (
        None
    )
    answer: Annotated[str | None, Help("Pipeline that answers: name or text that ends in read(READER).")] = (
        None
    )
    pipelines: Named[str] = Field(default_factory=dict)
    rerankers: Annotated[
        Named[str], Flags("--reranker"), Help("Re-ranker to serve: NAME or NAME=FOLDER.")
    ] = Field(default_factory=dict)
    encoders: Annotated[Named[str], Flags("--encoder"), Help("Encoder to serve: NAME or NAME=FOLDER.")] = (
        Field(default_factory=dict)
    )
    readers: Annotated[
        Named[str],
        Flags("--reader"),
        Help("Reader to serve: NAME or NAME=FOLDER."),
    ] = Field(default_factory=dict)

    answers: Annotated[
        bool,
        Help(
            "Answer with the French and English reader that comes with telerank (extra `e5`) if neither "
            "--reader nor --answer names another."
        ),
    ] = True

    title: Annotated[str, Help("Name of the service on its page. Default: telerank.")] = Field(
        default="telerank", min_length=1, max_length=100
    )
    answer_confidence: Annotated[
        float, Help("Confidence of an answer below which the page shows it only on a click.")
    ] = Field(default=0.25, ge=0, le=1)
    host: Annotated[str, Help("Address to listen on. Default: 127.0.0.1, this machine alone.")] = "127.0.0.1"
    port: Annotated[int, Help("Port to listen on. Default: 8080.")] = Field(default=8080, ge=0, le=65_535)
    prefix: Annotated[
        str,
        _matching(r"((/[A-Za-z0-9._~-]+)+)?", "expected a path such as /search, without a slash at its end"),
        Help("Path below which the service stands, such as /search."),
    ] = ""
    allowed_hosts: Annotated[
        tuple[_Host, ...],
        Flags("--allowed-host"),
        Help("Name for which requests are answered, besides localhost and addresses: search.example.org."),
    ] = ()
    trusted_proxies: Annotated[
        tuple[_Network, ...],
        Flags("--trusted-proxy"),
        Help(
            "Addresses or networks of web servers in front: their `X-Forwarded-For` and `X-Forwarded-Proto` "
            "are believed, and their connections are not limited."
        ),
    ] = ("127.0.0.1", "::1")
    workers: Annotated[int, Help("Processes. Default: 1.")] = Field(default=1, ge=1, le=64)
    threads: Annotated[
        int, Help("Searches that a process runs at a time; models compute in a thread of their own.")
    ] = Field(default=2, ge=1, le=64)
    backend: Annotated[str | None, Help("Back end of re-rankers: torch (default), openvino or onnx.")] = None
    precision: Annotated[str | None, Help("Precision of re-rankers; default: that of the back end.")] = None
    batch_tokens: Count | None = None
    watch: Annotated[float, Help("Seconds between two looks at the folders of the indexes.")] = Field(
        default=1.0, gt=0
    )
    grace: Annotated[float, Help("Seconds that open requests have to end after SIGTERM.")] = Field(
        default=30.0, ge=0
    )

    keys: Annotated[
        tuple[_Key, ...], Help("API keys, of which each request has one; none: every request is served.")
    ] = Field(default=(), repr=False)
    access: Annotated[
        Mapping[_Key, _Filter],
        Help("Further API keys, each with a filter: its requests see only documents that pass."),
    ] = Field(default_factory=dict, repr=False)
    facets: Annotated[
        tuple[str, ...],
        Flags("--facet"),
        Help("Column whose values the page counts beside results: type, date:year. Default: none."),
    ] = ()
    synonyms: Annotated[
        Path | None,
        Help("File of synonyms of queries, which is read anew when it changes. Default: none."),
    ] = None
    cors: Annotated[tuple[str, ...], Help("Origin whose pages may call the service. Default: none.")] = ()
    log_queries: Annotated[bool, Help("Log the texts of queries, too.")] = False
    judgments: Annotated[Path | None, Help("File to which the page adds judgments. Default: none.")] = None
    clicks: Annotated[
        Path | None,
        Help(
            "File to which the results that are opened are added, with their query and rank. Default: none."
        ),
    ] = None
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _check_served(self) -> ServiceSettings:
        if not (self.indexes or self.rerankers or self.encoders or self.readers):
            raise ValueError("nothing to serve: name an index or a model")
        return self


def with_reader(settings: ServiceSettings) -> ServiceSettings:
    """The settings with the reader that comes with telerank, if it is here and they say nothing else."""
    names_other = settings.readers or settings.answer is not None
    lacks = [module for module in ("torch", "transformers") if find_spec(module) is None]
    if not settings.answers or not settings.indexes or names_other or lacks or not has_default(READER):
        return settings
    return settings.model_copy(update={"readers": {READER: READER}})


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


def read_keys(file: str | Path | None) -> dict[str, str]:
    """The API keys of a file, one a line (``#`` begins a comment), and of :data:`KEYS_VARIABLE`.

    A filter may stand behind a key: the key's requests see only documents that pass. Without, it is empty.

    Raises
    ------
    CollectionError
        If the file or the variable has no key: a service that should have keys is not served without. If a
        filter cannot be read.
    FormatError
        If the file is not UTF-8.
    """
    sources: dict[str, list[tuple[str, str]]] = {}
    if file is not None:
        try:
            lines = Path(file).read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise FormatError(file, None, "API keys, one a line, in UTF-8") from error
        sources[str(file)] = [
            pair for number, line in enumerate(lines, 1) if (pair := _read_key(file, number, line))
        ]
    if KEYS_VARIABLE in os.environ:
        sources[KEYS_VARIABLE] = [(key, "") for key in os.environ[KEYS_VARIABLE].replace(",", " ").split()]
    for name, keys in sources.items():
        if not keys:
            raise CollectionError(f"serve: {name} has no API key")
    # a filter stands, wherever else its key stands without
    return dict(sorted((pair for keys in sources.values() for pair in keys), key=lambda pair: pair[1] != ""))


def _read_key(file: str | Path, number: int, line: str) -> tuple[str, str] | None:
    """The key and the filter of a line; None if it has neither."""
    key, _, rest = line.strip().partition(" ")
    rest = "" if "#" in key or rest.lstrip().startswith("#") else rest.strip()
    key = key.partition("#")[0]
    if rest:
        try:
            rest = Filter.parse(rest).text
        except FilterError as error:  # without the text of the line: it has a key
            raise CollectionError(
                f"serve: {file}:{number}: expected a filter behind the key: {error}"
            ) from error
    return (key, rest) if key else None


def path_of(scope: MutableMapping[str, Any]) -> str:
    """The path of a request below the prefix of the service."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))
