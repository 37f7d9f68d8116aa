"""A static encoder of the pieces of an encoder, without any text: ``static`` in learned-sparse/english.

``python scripts/make_static.py minilm minilm-static`` needs ``pip install "model2vec[distill]"``. Its
dimensions are those of Model2Vec's own models of this size, 256.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from model2vec.distill import distill_from_model
from transformers import AutoModel, AutoTokenizer

from telerank.models.loading import locate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("encoder", help="a folder, or a name on the hub")
    parser.add_argument("folder", type=Path, help="where the static encoder is written")
    parser.add_argument("--dimensions", type=int, default=256)
    options = parser.parse_args()
    source = str(locate(options.encoder))
    model = distill_from_model(
        AutoModel.from_pretrained(source),
        AutoTokenizer.from_pretrained(source),
        pca_dims=options.dimensions,
    )
    model.save_pretrained(str(options.folder))
    print(f"a static encoder of {len(model.embedding):,} pieces in {options.folder}")


if __name__ == "__main__":
    main()
