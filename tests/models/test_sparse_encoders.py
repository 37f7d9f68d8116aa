"""Models of sparse vectors: the same vectors as sentence-transformers' SparseEncoder, and indexes of them."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch")
library = pytest.importorskip("sentence_transformers")

import telerank as tr  # noqa: E402
from small_models import small_masked, small_tokenizer  # noqa: E402
from telerank.errors import IndexFault, LongTexts, ModelError  # noqa: E402
from telerank.models.encoders.sparse import SpladeEncoder, load_sparse_encoder  # noqa: E402
from telerank.models.loading import quiet  # noqa: E402
from telerank.testing import check_stage  # noqa: E402
from telerank.types import Query  # noqa: E402

TEXTS = ["d1 d2 x3", " ".join(f"q{number % 40}" for number in range(90)), "", "q1", "q1 d1 q1"]
KINDS = ("plain", "max", "sum", "towers", "static", "largest")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder of each kind, all but the first written by sentence-transformers."""
    from sentence_transformers.base.modules import Router, Transformer
    from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding, SpladePooling

    root = tmp_path_factory.mktemp("sparse")
    first, second = (small_masked(root / f"masked-{seed}", seed) for seed in (0, 1))

    def splade(folder, *pooling):
        with quiet():
            return [Transformer(str(folder), transformer_task="fill-mask"), SpladePooling(*pooling)]

    table = SparseStaticEmbedding(small_tokenizer("bert"), torch.rand(125) + 0.5, frozen=True)
    route = Router.for_query_document
    modules = {
        "max": splade(first, "max"),
        "sum": splade(first, "sum", "log1p_relu"),
        "towers": [route(query_modules=splade(second, "max"), document_modules=splade(first, "max"))],
        "static": [route(query_modules=[table], document_modules=splade(first, "max"))],
    }
    for name, parts in modules.items():
        with quiet():
            library.SparseEncoder(modules=parts, device="cpu").save(str(root / name))
    with quiet():
        library.SparseEncoder(modules=splade(first, "max"), device="cpu", max_active_dims=7).save(
            str(root / "largest")
        )
    return {name: root / name for name in (*modules, "largest")} | {"plain": first}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("queries", [True, False])
def test_vectors_are_those_of_sentence_transformers(folders, kind, queries):
    with quiet():
        theirs = library.SparseEncoder(str(folders[kind]), device="cpu")
    encode = theirs.encode_query if queries else theirs.encode_document
    expected = encode(TEXTS, convert_to_sparse_tensor=False, show_progress_bar=False).cpu().numpy()
    own = load_sparse_encoder(folders[kind], "cpu")
    got = np.zeros_like(expected)
    vectors = own.encode(TEXTS, queries=queries)
    for row, (numbers, weights, is_cut) in enumerate(vectors):
        assert (weights > 0).all()
        assert is_cut == (row == 1)  # that of 90 words
        got[row, numbers] = weights
    np.testing.assert_allclose(got, expected, atol=2e-5, rtol=1e-5)
    assert (expected > 0).sum() > len(TEXTS)
    named = own.weigh_pieces(vectors[0])
    pieces = theirs.decode(torch.tensor(expected[0]).to_sparse())
    assert set(named) == {piece for piece, _ in pieces}


@pytest.mark.parametrize("kind", ["max", "towers", "largest"])
def test_scores_are_cosines_if_the_folder_says_so(folders, kind, tmp_path):
    folder = tmp_path / "cosine"
    with quiet():
        theirs = library.SparseEncoder(str(folders[kind]), device="cpu", similarity_fn_name="cosine")
        theirs.save(str(folder))
        theirs = library.SparseEncoder(str(folder), device="cpu")
    dense = {"convert_to_sparse_tensor": False}
    query, docs = theirs.encode_query("q1 d1 d2", **dense), theirs.encode_document(TEXTS, **dense)
    assert theirs.similarity_fn_name == "cosine"
    expected = dict(zip("abcde", theirs.similarity(query, docs)[0].tolist(), strict=True))
    own, plain = (load_sparse_encoder(each, "cpu") for each in (folder, folders[kind]))
    assert own.fingerprint != plain.fingerprint
    lengths = [np.linalg.norm(vector.weights) for vector in own.encode(TEXTS, queries=False)]
    assert lengths == pytest.approx([1] * len(TEXTS), abs=1e-6)
    with pytest.warns(LongTexts):
        index = tr.index(dict(zip("abcde", TEXTS, strict=True)), tmp_path / "idx", weights_model=str(folder))
    found = dict(index.impact().search("q1 d1 d2"))
    assert found == pytest.approx({d: score for d, score in expected.items() if score > 0}, abs=2e-3)


@pytest.mark.parametrize("similarity", ["euclidean", "manhattan"])
def test_a_similarity_that_is_no_sum_over_terms_is_refused(folders, similarity, tmp_path):
    folder = shutil.copytree(folders["max"], tmp_path / "other")
    file = folder / "config_sentence_transformers.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"similarity_fn_name": similarity}))
    with pytest.raises(ModelError, match=f"its similarity is {similarity}: expected dot or cosine"):
        load_sparse_encoder(folder, "cpu")


@pytest.mark.parametrize(
    "architecture", ["distilbert", "roberta", "xlm-roberta", "camembert", "mpnet", "modernbert"]
)
def test_masked_language_models_of_every_kind_are_pooled_in_parts(tmp_path, architecture):
    """SPLADE-v3 is a BERT; others are published on a DistilBERT, a CamemBERT or a ModernBERT."""
    folder = small_masked(tmp_path / architecture, architecture=architecture)
    own = load_sparse_encoder(folder, "cpu")
    assert own.documents.model._body is not None
    with quiet():
        theirs = library.SparseEncoder(str(folder), device="cpu")
    expected = (
        theirs.encode_document(TEXTS, convert_to_sparse_tensor=False, show_progress_bar=False).cpu().numpy()
    )
    got = np.zeros_like(expected)
    for row, vector in zip(got, own.encode(TEXTS, queries=False), strict=True):
        row[vector.numbers] = vector.weights
    assert np.abs(got - expected).max() < 1e-5


@pytest.mark.parametrize(("pooling", "twice"), [("max", False), ("sum", True)])
def test_pooling_some_pieces_after_others_changes_nothing(folders, pooling, twice):
    loaded = load_sparse_encoder(folders["max"], "cpu").documents.model.model
    ids = torch.randint(5, 125, (33, 62), generator=torch.Generator().manual_seed(0))
    mask = (torch.arange(62) < torch.arange(30, 63).unsqueeze(1)).long()

    class Capped(torch.nn.Module):  # it does something behind the layer that gives logits
        def __init__(self):
            super().__init__()
            self.inner = loaded

        def get_output_embeddings(self):
            return self.inner.get_output_embeddings()

        def forward(self, **given):
            outputs = self.inner(**given)
            outputs.logits = outputs.logits.tanh()
            return outputs

    for model, in_parts in ((loaded, True), (Capped(), False)):
        encoder = SpladeEncoder(model, pooling, twice=twice).eval()
        with torch.no_grad():
            got = encoder(ids, mask)
        assert (encoder._body is not None) == in_parts
        assert got.shape == (33, 125)
        logits = model(input_ids=ids, attention_mask=mask).logits * mask.unsqueeze(-1)
        torch.testing.assert_close(got, encoder._pool(logits), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("twice", [False, True])
def test_gradients_of_the_largest_logits_are_those_of_all_logits(folders, monkeypatch, twice):
    monkeypatch.setattr("telerank.models.encoders.largest_logits._LOGITS", 64 * 33 * 62)
    monkeypatch.setattr("telerank.models.encoders.largest_logits._NUMBERS", 7)
    model = load_sparse_encoder(folders["max"], "cpu").documents.model.model.double().requires_grad_()
    ids = torch.randint(5, 125, (33, 62), generator=torch.Generator().manual_seed(0))
    mask = (torch.arange(62) < torch.arange(30, 63).unsqueeze(1)).long()
    encoder = SpladeEncoder(model, "max", twice=twice).eval()
    factors = torch.rand(33, 125, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def gradients(weights):
        model.zero_grad()
        (weights * factors).sum().backward()
        return {name: each.grad for name, each in model.named_parameters() if each.grad is not None}

    logits = model(input_ids=ids, attention_mask=mask).logits * mask.unsqueeze(-1)
    expected, got = gradients(encoder._pool(logits)), gradients(encoder(ids, mask))
    assert expected.keys() == got.keys()
    for name, each in expected.items():
        torch.testing.assert_close(got[name], each, msg=name)


def test_fingerprints_tell_models_apart(folders, tmp_path):
    prints = {kind: load_sparse_encoder(folders[kind], "cpu").fingerprint for kind in KINDS}
    assert prints.pop("plain") == prints["max"]
    assert len(set(prints.values())) == len(prints)
    shutil.copytree(folders["static"], tmp_path / "copy")
    assert load_sparse_encoder(tmp_path / "copy", "cpu").fingerprint == prints["static"]


def edit(folder, name, change):
    record = json.loads((folder / name).read_text())
    change(record)
    (folder / name).write_text(json.dumps(record))


def test_wrong_folders_are_refused_in_a_line(folders, tmp_path):
    def copied(kind, name, change):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        shutil.copytree(folders[kind], folder)
        edit(folder, name, change)
        return folder

    wrong = {
        copied(
            "max", "modules.json", lambda modules: modules.pop()
        ): "expected a masked language model with Splade",
        copied(
            "max", "1_SpladePooling/config.json", lambda c: c.update(pooling_strategy="mean")
        ): "pooling_strategy",
        copied(
            "max", "config.json", lambda c: c.update(architectures=["BertModel"])
        ): "expected a masked language",
        copied(
            "static", "router_config.json", lambda c: c["structure"].pop("query")
        ): "routes query and document",
        copied(
            "static", "router_config.json", lambda c: c["structure"].update(query=["../../x"])
        ): "leads out of it",
    }
    for folder, said in wrong.items():
        with pytest.raises(ModelError, match=said):
            load_sparse_encoder(folder, "cpu")


def test_an_index_of_a_model_is_searched_changed_and_follows_it(folders, tmp_path):
    texts = {f"{number}": f"d{number} d{number + 1} q{number}" for number in range(12)}
    index = tr.index(texts, tmp_path / "idx", weights_model=str(folders["static"]))
    model, step = load_sparse_encoder(folders["static"], "cpu"), index.sparse.manifest.term_weights.step
    index.add({"new": "d3 q3"})
    texts["new"] = "d3 q3"
    encoded = map(model.weigh_pieces, model.encode(list(texts.values()), queries=False))
    vectors = dict(zip(texts, encoded, strict=True))
    for _ in range(2):
        for query in ("d3 q3", "q1", "d1 d2 d3"):
            [weights] = map(model.weigh_pieces, model.encode([query], queries=True))
            found = dict(index.impact().search(query))
            for docno, vector in vectors.items():
                exact = sum(weights[t] * np.rint(vector[t] / step) * step for t in weights if t in vector)
                assert found.get(docno, 0.0) == pytest.approx(exact, rel=1e-5, abs=1e-4)
        index.merge()
    stage = tr.pipeline("impact % 5", index)
    check_stage(stage, [Query("1", "d3"), Query("2", "q1 d2")])
    named = tr.pipeline(f"impact('{folders['towers']}')", index)
    assert tr.pipeline(repr(named), index) == named != stage
    with pytest.warns(LongTexts, match="1 document longer than 64 tokens: .* weighs the terms before"):
        index.add({"long": "d1 " * 70, "short": "d1"})
    shutil.copytree(folders["max"], tmp_path / "other")
    with pytest.raises(IndexFault, match="holds an index already, built with weights of terms of"):
        tr.index(texts, tmp_path / "idx", weights_model=str(tmp_path / "other"))
