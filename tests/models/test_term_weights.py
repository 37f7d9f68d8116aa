"""Weights of tokens, pieces and words: closed formulas, other implementations' folders, indexes of them."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from safetensors.torch import save_file  # noqa: E402
from transformers import AutoModel, AutoModelForTokenClassification, BertConfig, BertTokenizer  # noqa: E402

import telerank as tr  # noqa: E402
from small_models import small_encoder, small_tokenizer, small_weigher  # noqa: E402
from telerank.errors import ArgumentTypeError, LongTexts, ModelError  # noqa: E402
from telerank.models.encoders.bi_encoder import Side, SideTokenizer  # noqa: E402
from telerank.models.encoders.sparse import load_sparse_encoder  # noqa: E402
from telerank.models.encoders.term_weight_folders import load_term_weights  # noqa: E402
from telerank.models.encoders.word_weights import split_words  # noqa: E402
from telerank.testing import check_stage  # noqa: E402
from telerank.text import Analyzer  # noqa: E402
from telerank.text.analyzer import locate_terms  # noqa: E402
from telerank.types import Query  # noqa: E402

TEXTS = ["d1 d2 x3 d1", "q1 d1 q1", "", "x5", " ".join(f"q{number}" for number in range(40))]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return small_encoder(tmp_path_factory.mktemp("encoder") / "encoder")


@pytest.fixture(scope="module")
def folders(tmp_path_factory, encoder):
    root = tmp_path_factory.mktemp("weights")
    return {
        "deepct": small_weigher(root / "deepct", encoder=encoder, scale=100),
        "deepimpact": small_weigher(
            root / "deepimpact", "deepimpact", encoder=encoder, head="mlp", queries="ones"
        ),
        "unicoil": small_weigher(root / "unicoil", "unicoil", encoder=encoder, queries="model"),
    }


def outputs_of(folder, text):
    """The tokens of a text and the encoder's output for each, by transformers alone."""
    tokenizer, model = BertTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    batch = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        outputs = model(batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state[0]
    return tokenizer.convert_ids_to_tokens(batch["input_ids"][0]), outputs


def head_of(folder):
    from safetensors.torch import load_file

    return load_file(folder / "term_weights.safetensors")


def weigh_slowly(folder, text, *, kind):
    """The weights of the words of a text, written out; small tokenizers have one piece a word."""
    tokens, outputs = outputs_of(folder, text)
    head, best = head_of(folder), {}
    for token, output in list(zip(tokens, outputs, strict=True))[1:-1]:
        if kind == "deepimpact":
            hidden = torch.relu(head["0.weight"] @ output + head["0.bias"])
            weight = float(head["2.weight"][0] @ hidden + head["2.bias"][0])
        else:
            weight = float(head["weight"][0] @ output + head["bias"][0])
        best[token] = max(weight, best.get(token, 0.0))
    best.pop("[UNK]", None)
    scaled = {term: round(100 * weight) if kind == "deepct" else weight for term, weight in best.items()}
    return {term: weight for term, weight in scaled.items() if weight > 0}


def places(text):
    return list(locate_terms(Analyzer.parse("standard"), text))


@pytest.mark.parametrize("kind", ["deepct", "deepimpact"])
def test_weights_of_words_are_the_closed_formula(folders, kind):
    model = load_sparse_encoder(folders[kind], "cpu")
    weighed = model.weigh(TEXTS, [places(text) for text in TEXTS])
    kept = 0
    for text, (weights, is_cut) in zip(TEXTS, weighed, strict=True):
        expected = weigh_slowly(folders[kind], text, kind=kind)
        assert weights == pytest.approx(expected, abs=1e-5)
        assert not is_cut
        kept += len(weights)
    assert 0 < kept < len({(text, word) for text in TEXTS for word in text.split()})  # some are below 0


def test_vectors_of_unicoil_are_the_closed_formula(folders):
    model, head = load_sparse_encoder(folders["unicoil"], "cpu"), head_of(folders["unicoil"])
    for queries in (False, True):
        vectors = model.encode(TEXTS, queries=queries)
        for text, vector in zip(TEXTS, vectors, strict=True):
            tokens, outputs = outputs_of(folders["unicoil"], text)
            expected = Counter()
            for token, output in list(zip(tokens, outputs, strict=True))[1:-1]:
                weight = max(0.0, float(head["weight"][0] @ output + head["bias"][0]))
                expected[token] = expected[token] + weight if queries else max(expected[token], weight)
            assert model.weigh_pieces(vector) == pytest.approx({t: w for t, w in expected.items() if w})
    counts = load_sparse_encoder(make_like(folders["unicoil"], queries="counts"), "cpu")
    assert counts.weigh_pieces(counts.encode(["q1 d1 q1"], queries=True)[0]) == {"q1": 2, "d1": 1}
    ones = load_sparse_encoder(make_like(folders["unicoil"], queries="ones"), "cpu")
    assert ones.weigh_pieces(ones.encode(["q1 d1 q1"], queries=True)[0]) == {"q1": 1, "d1": 1}
    assert len({model.fingerprint, counts.fingerprint, ones.fingerprint}) == 3


def make_like(folder, **changes):
    """A copy with other settings."""
    copy = folder.with_name(f"{folder.name}-{'-'.join(f'{k}-{v}' for k, v in changes.items())}")
    shutil.copytree(folder, copy, dirs_exist_ok=True)
    record = json.loads((copy / "term_weights.json").read_text()) | changes
    (copy / "term_weights.json").write_text(json.dumps(record))
    return copy


def test_pieces_of_words_of_an_analyzer():
    names = (
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "gut",
        "##en",
        "##berg",
        "press",
        "3",
        ".",
        "14",
        "'",
        "s",
    )
    tokenizer = BertTokenizer(vocab={name: number for number, name in enumerate(names)})
    text = "Gutenberg's press, 3.14 (the press) Gutenberg"
    analyzer = Analyzer.parse("english")
    terms = list(locate_terms(analyzer, text))
    (whole,) = split_words(SideTokenizer(tokenizer, Side(64)), [text], [terms], only_first=False)
    tokens = tokenizer.convert_ids_to_tokens(whole.ids)
    # Gutenberg's is one word of the analyzer, whose end is removed, and five pieces
    spelled = [(term, tokens[pieces.start : pieces.stop]) for term, pieces in whole.words]
    assert spelled[0] == (terms[0].term, ["gut", "##en", "##berg", "'", "s"])
    assert spelled[2] == ("3.14", ["3", ".", "14"])
    assert spelled[-1][1] == ["gut", "##en", "##berg"]
    (cut,) = split_words(SideTokenizer(tokenizer, Side(8)), [text], [terms], only_first=True)
    assert cut.is_cut
    assert [(term, list(pieces)) for term, pieces in cut.words] == [(terms[0].term, [1]), ("press", [6])]
    assert [tokens[place] for place in np.flatnonzero(whole.starts)][:4] == ["gut", "'", "s", "press"]


def test_a_word_has_the_largest_weight_of_its_pieces_if_asked(tmp_path):
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "gut", "##en", "##berg", "press"]
    start = small_encoder(tmp_path / "encoder")
    BertTokenizer(vocab={name: number for number, name in enumerate(names)}).save_pretrained(start)
    own = {}
    for word in ("first", "largest"):
        folder = small_weigher(tmp_path / word, encoder=start, word=word, seed=5)
        weigher, tokenizer, _ = load_term_weights(folder)
        [own[word]] = load_sparse_encoder(folder, "cpu").weigh(["gutenberg"], [[("gutenberg", 0, 9)]])
        with torch.no_grad():
            weights = weigher(**tokenizer("gutenberg", return_tensors="pt", return_token_type_ids=False))[0]
        expected = weights[1] if word == "first" else weights[1:4].max()
        assert own[word].weights.get("gutenberg", 0) == pytest.approx(max(0.0, float(expected)), abs=1e-5)
    assert own["first"] != own["largest"]


def test_an_index_of_deepct_has_the_terms_of_its_counts_and_is_searched_by_bm25(folders, tmp_path):
    texts = {f"{number}": f"D{number}, d{number + 1} x{number % 3} d{number}" for number in range(30)}
    index = tr.index(texts, tmp_path / "idx", weights_model=str(folders["deepct"]), analyzer="standard")
    index.add({"new": "d3 x1"})
    texts["new"] = "d3 x1"
    vectors = {docno: weigh_slowly(folders["deepct"], text, kind="deepct") for docno, text in texts.items()}
    assert index.sparse.manifest.term_weights.bits == 0
    lengths = {docno: sum(vector.values()) for docno, vector in vectors.items()}
    average = sum(lengths.values()) / sum(1 for length in lengths.values() if length)
    documents = sum(1 for length in lengths.values() if length)
    for _ in range(2):
        stage = tr.pipeline("bm25(k1=8, b=0.9, over=weights) % 40", index)
        assert stage == index.bm25(8, 0.9, over="weights") % 40
        assert tr.pipeline(repr(stage), index) == stage
        for query in ("d3 d4", "x1", "d7 d7 x2"):
            expected = {}
            for term, times in Counter(query.split()).items():
                df = sum(term in vector for vector in vectors.values())
                idf = np.log1p((documents - df + 0.5) / (df + 0.5))
                for docno, vector in vectors.items():
                    if tf := vector.get(term):
                        part = tf / (tf + 8 * (0.1 + 0.9 * lengths[docno] / average))
                        expected[docno] = expected.get(docno, 0) + times * idf * part
            found = dict(stage.search(query))
            assert found == pytest.approx(expected, abs=1e-4)
            summed = {docno: sum(v.get(t, 0) for t in query.split()) for docno, v in vectors.items()}
            impacts = dict(index.impact().search(query))
            assert impacts == {docno: total for docno, total in summed.items() if total}
            for docno, score in found.items():
                explained = stage.explain(query, docno)
                assert explained.value == score == sum(part.value for part in explained.parts)
        index.merge()
    check_stage(stage, [Query("1", "d3"), Query("2", "x1 d2")])
    with pytest.warns(LongTexts, match="1 document longer than 64 tokens"):
        index.add({"long": "d1 " * 70})


def test_an_index_of_deepimpact_sums_each_term_of_a_query_once(folders, tmp_path):
    texts = {f"{number}": f"d{number} d{number + 1}" for number in range(9)}
    index = tr.index(texts, tmp_path / "idx", weights_model=str(folders["deepimpact"]))
    assert list(index.impact().search("d3 d3")) == list(index.impact().search("d3"))
    with pytest.raises(ModelError, match=r"its weights are of .*, and counts are whole numbers"):
        index.bm25(over="weights")
    with pytest.raises(ModelError, match="the index has no weights of terms: index it again with --weights"):
        tr.index({"1": "a"}, tmp_path / "plain").bm25(over="weights")
    with pytest.raises(ArgumentTypeError, match="over must be 'weights', got 'other'"):
        index.retriever("bm25", over="other")
    stage = index.impact(str(folders["unicoil"]))
    assert stage.search("d3").docnos == () or stage.search("d3").scores.min() > 0


FOREIGN = {"UniCoilEncoder": "unicoil", "DeepImpact": "deepimpact", "BertForTokenClassification": "deepct"}


@pytest.mark.parametrize("architecture", FOREIGN)
@pytest.mark.parametrize("pickled", [False, True])
def test_checkpoints_of_other_programs_are_opened(tmp_path, architecture, pickled):
    """Folders of the shapes of castorini/unicoil-msmarco-passage, DeepImpact, and macavaney/deepct."""
    folder, kind = tmp_path / "foreign", FOREIGN[architecture]
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(
        vocab_size=125, max_position_embeddings=66, initializer_range=0.3, num_labels=1, **shape
    )
    torch.manual_seed(1)
    classifier = AutoModelForTokenClassification.from_config(config)
    classifier.save_pretrained(folder)
    small_tokenizer("bert").save_pretrained(folder)
    named = {
        "unicoil": lambda name: f"coil_encoder.{name.replace('classifier', 'tok_proj')}",
        "deepimpact": lambda name: name.replace("classifier", "impact_score_encoder.0"),
        "deepct": str,
    }[kind]
    tensors = {named(name): weight.contiguous() for name, weight in classifier.state_dict().items()}
    (folder / "model.safetensors").unlink()
    if pickled:
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    record = json.loads((folder / "config.json").read_text()) | {"architectures": [architecture]}
    (folder / "config.json").write_text(json.dumps(record))
    model, tokenizer = load_sparse_encoder(folder, "cpu"), small_tokenizer("bert")
    for text in ("d1 d2 x3 d1", "q1"):
        batch = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            weights = classifier.eval()(batch["input_ids"], attention_mask=batch["attention_mask"]).logits[
                0, :, 0
            ]
        expected, summed = {}, Counter()
        for token, weight in list(
            zip(tokenizer.convert_ids_to_tokens(batch["input_ids"][0]), weights, strict=True)
        )[1:]:
            if token != "[SEP]" or kind == "unicoil":  # Pyserini keeps it
                expected[token] = max(float(weight), expected.get(token, 0.0))
                summed[token] += max(0.0, float(weight))
        if kind == "unicoil":
            [document], [query] = (model.encode([text], queries=queries) for queries in (False, True))
            got, of_query = model.weigh_pieces(document), model.weigh_pieces(query)
            assert of_query == pytest.approx({t: w for t, w in summed.items() if w}, abs=1e-5)
        else:
            got = dict(model.weigh([text], [places(text)])[0].weights)
        scale = 100 if kind == "deepct" else None
        expected = {t: round(scale * w) if scale else w for t, w in expected.items()}
        assert got == pytest.approx({t: w for t, w in expected.items() if w}, abs=1e-5)


def test_wrong_folders_are_refused_in_a_line(folders, tmp_path):
    def copied(name, change):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        shutil.copytree(folders["deepct"], folder)
        change(folder / name)
        return folder

    def settings(**changes):
        return lambda file: file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    wrong = {
        copied("term_weights.json", settings(kind="other")): "kind",
        copied("term_weights.json", settings(unknown=1)): "unknown",
        copied("term_weights.json", settings(scale=-1)): "scale must be from 0 to 10,000",
        copied("term_weights.json", settings(queries="model")): "queries must be counts or ones",
        copied(
            "term_weights.json", settings(document_length=67)
        ): "67 tokens, but the model has 66 positions",
        copied("term_weights.json", settings(head="mlp")): "the head cannot be read",
        copied("term_weights.safetensors", lambda file: file.write_bytes(b"x")): "cannot be read",
        copied(
            "term_weights.safetensors",
            lambda file: save_file({"weight": torch.full((1, 32), torch.nan), "bias": torch.zeros(1)}, file),
        ): "not finite",
    }
    for folder, said in wrong.items():
        with pytest.raises(ModelError, match=said):
            load_sparse_encoder(folder, "cpu")
    from telerank.sparse.weights.encoder import TermEncoder

    with pytest.raises(ModelError, match="has weights of words, which have no numbers"):
        TermEncoder(str(folders["deepct"])).encode(["a"], queries=True)


def test_a_root_makes_small_weights_larger(folders):
    plain, rooted = (
        load_sparse_encoder(make_like(folders["deepct"], root=root), "cpu").weigh(
            ["d1 d2 x3"], [places("d1 d2 x3")]
        )
        for root in (False, True)
    )
    for term, weight in rooted[0].weights.items():
        assert weight == pytest.approx(
            100 * np.sqrt(plain[0].weights[term] / 100),
            abs=0.6 / max(1e-9, np.sqrt(plain[0].weights[term] / 100)),
        )
