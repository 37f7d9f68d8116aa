"""Every format that telerank reads, in one place; :func:`.collection.open_collection` asks each in turn."""

from __future__ import annotations

from telerank.corpus.antique import ANTIQUE
from telerank.corpus.car_folder import TREC_CAR
from telerank.corpus.collection import Format
from telerank.corpus.insuranceqa import INSURANCEQA, INSURANCEQA_TOKEN
from telerank.corpus.squad import SQUAD

FORMATS: tuple[Format, ...] = (
    ANTIQUE,
    INSURANCEQA,
    INSURANCEQA_TOKEN,
    SQUAD,
    TREC_CAR,
)
