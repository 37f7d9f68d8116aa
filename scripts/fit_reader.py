"""Fit threshold and temperature of the reader that comes with telerank, and write its ``compact.json``.

``python scripts/fit_reader.py [--precision P]``

The questions are those of ``dev`` in the settings ``e5/reader``, whose collections are those of
``TELERANK_DATA``. A training by these settings ends with the same; this leaves the weights as they are.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace

from telerank.drafts import replace_file
from telerank.experiments.packaged import find_training
from telerank.model_names import READER, SHIPPED
from telerank.models.compact import MANIFEST, read_manifest
from telerank.models.packing import drop_curves
from telerank.models.readers import load_reader
from telerank.show.progress import show_progress
from telerank.training.kinds import find_training_kind
from telerank.training.parallel import ALONE
from telerank.training.reader.train import open_dev
from telerank.training.task import choose_device


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--precision", default="auto", metavar="P")
    options = parser.parse_args()
    config = find_training_kind("reader").read(find_training("e5/reader"), {"precision": options.precision})
    folder = SHIPPED[READER].folder
    with show_progress(None) as progress:
        dev = open_dev(config, choose_device(config.device), ALONE, progress)
        reader, fit = dev.fit(load_reader(folder), progress)
    manifest = read_manifest(folder)
    sets = config.model_dump(mode="json")["dev"]["sets"]
    training = {**manifest.training, "fit": drop_curves(fit.record()), "fitted on": sets}
    manifest = replace(manifest, settings=asdict(reader.settings), training=training)
    written = json.dumps(asdict(replace(manifest, checksum=manifest.own_checksum)), indent=1)
    replace_file(folder / MANIFEST, f"{written}\n".encode())
    print(fit)


if __name__ == "__main__":
    main()
