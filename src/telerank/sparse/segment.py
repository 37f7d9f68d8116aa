"""One segment of an index: inverted files that never change, the marks of deleted documents, the documents.

======================  =============================================================================
``terms.bin`` etc.      the inverted file of the whole texts (:mod:`telerank.sparse.inverted.lists`)
``fields.*``            those of fields, if the index has some
``weights.*``           that of weights beside the counts, if the index has them
``docnos.*, docs.*``    the docstore (:mod:`telerank.corpus.docstore`); row i of it is row i here
``deleted.GEN.npy``     bool (documents,): marks, if some are deleted
``copies.GEN.npy``      bool (documents,): marks, if copies are left out (:mod:`telerank.sparse.copies`)
======================  =============================================================================
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from telerank.corpus.docstore import Docstore
from telerank.errors import IndexDamaged
from telerank.sparse.inverted.lists import FIELDS, WEIGHTS, InvertedFile
from telerank.sparse.inverted.postings import FORMAT
from telerank.sparse.inverted.terms import Terms
from telerank.stored import map_npy


class Segment(InvertedFile):
    """A segment for reading, itself the inverted file of its whole texts; ``fields`` are those of fields.

    Threads may share it.
    """

    def __init__(
        self,
        folder: Path,
        deleted: str | None = None,
        copies: str | None = None,
        form: int = FORMAT,
        fields: int = 0,
        *,
        weights: bool = False,
    ) -> None:
        super().__init__(folder, form=form)
        terms = Terms(folder, FIELDS) if fields else None
        self.fields = tuple(InvertedFile(folder, f"{FIELDS}{number}.", terms) for number in range(fields))
        self.weights = InvertedFile(folder, WEIGHTS) if weights else None
        none: npt.NDArray[np.bool_] = np.empty(0, np.bool_)
        self.gone, self.copies = (
            none if name is None else np.array(map_npy(folder / name, "?")) for name in (deleted, copies)
        )
        # a copy that is left out is not searched, but may come back
        self.deleted = self.gone | self.copies if len(self.gone) and len(self.copies) else self.gone
        self.deleted = self.deleted if len(self.deleted) else self.copies
        self.docs = Docstore(folder)
        self.docnos = self.docs.docnos
        # compiled loops do not check bounds
        if not (
            len(self.docs) == len(self)
            and {len(self.gone), len(self.copies)} <= {0, len(self)}
            and {file.documents for file in self.files.values()} <= {len(self)}
        ):
            raise IndexDamaged(f"{self.folder}: its files do not belong together")

    @property
    def files(self) -> dict[str, InvertedFile]:
        """The inverted files by the prefix of their names: first that of the whole texts."""
        fields = {f"{FIELDS}{number}.": file for number, file in enumerate(self.fields)}
        return {"": self, **fields, **({} if self.weights is None else {WEIGHTS: self.weights})}

    def __len__(self) -> int:
        """Documents, deleted ones included."""
        return self.documents

    def is_deleted(self, row: int, *, with_copies: bool = False) -> bool:
        """Whether a document is deleted or, without ``with_copies``, left out as a copy."""
        marks = self.gone if with_copies else self.deleted
        return bool(len(marks) and marks[row])
