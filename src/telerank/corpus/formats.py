"""Every format that telerank reads, in one place; :func:`.collection.open_collection` asks each in turn."""

from __future__ import annotations

from telerank.corpus.antique import ANTIQUE
from telerank.corpus.beir import BEIR
from telerank.corpus.car_folder import TREC_CAR
from telerank.corpus.collection import Format
from telerank.corpus.cranfield import CRANFIELD
from telerank.corpus.csv_files import CSV, PASSAGES
from telerank.corpus.folder import FOLDER
from telerank.corpus.insuranceqa import INSURANCEQA, INSURANCEQA_TOKEN
from telerank.corpus.jsonl import JSONL
from telerank.corpus.msmarco import MSMARCO
from telerank.corpus.ranking_set import RANKING_SET
from telerank.corpus.squad import SQUAD
from telerank.corpus.topics_qrels import TOPICS
from telerank.corpus.trec_sgml import TREC

FORMATS: tuple[Format, ...] = (
    ANTIQUE,
    BEIR,
    CRANFIELD,
    CSV,
    FOLDER,
    INSURANCEQA,
    INSURANCEQA_TOKEN,
    JSONL,
    MSMARCO,
    PASSAGES,
    RANKING_SET,
    SQUAD,
    TOPICS,
    TREC,
    TREC_CAR,
)
