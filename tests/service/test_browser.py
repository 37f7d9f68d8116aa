from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from small_pages import CONTRAST, DOCS, HOSTILE, hostile_docs, page_settings
from small_readers import reader_with
from small_service import listening, make_index
from telerank.corpus.answers import read_judgments
from telerank.models.readers import save_reader
from telerank.types import Doc, Mark

CHROMIUM = Path("/usr/bin/chromium")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no {CHROMIUM}")]
PAGES = (
    "/",
    "/search?query=prime+revenus",
    "/search?query=xyzzy",
    "/explain?query=prime+revenus&docno=F1&model=fused",
    "/document?docno=F1&query=prime&at=10-40&kind=answer",
    "/document?docno=t.pdf%231&query=cantine",
    "/compare?query=prime+revenus&a=bm25&b=fused",
    "/search?query=a&model=bm25(k2%3D1)",
    "/nothing",
)
OF_FILE = Doc(
    "t.pdf#1", "Tarifs\nLa cantine coûte 3 euros.", "Tarifs", file="t.pdf", marks=(Mark(0, 3, "Tarifs"),)
)
LONG = Doc(
    "L1", "\n".join(f"Ligne {n} du long rapport annuel." for n in range(300)) + "\nun zébu ici", "Rapport"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("browser") / "fiches"
    return make_index(folder, [*DOCS, OF_FILE, LONG], analyzer="french")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    pipelines = {"fused": "rrf(bm25 % 30, lm_dirichlet % 30)"}
    judged = folder.with_name("judged.jsonl")
    with listening(page_settings(folder, judgments=judged, pipelines=pipelines)) as address:
        yield address


@pytest.fixture(scope="module")
def answering(folder: Path, tmp_path_factory) -> Iterator[str]:
    """The address of a service with a reader, whose weights are random."""
    reader = tmp_path_factory.mktemp("reader")
    save_reader(reader_with(reader, "word pieces"), reader / "reader")
    readers = {"reader": str(reader / "reader")}
    with listening(page_settings(folder, readers=readers, answer_confidence=0)) as address:
        yield address


@pytest.fixture(scope="module")
def grouped(tmp_path_factory) -> Iterator[str]:
    """The address of a service over passages of two files."""
    docs = [Doc(f"{name}.pdf#{n}", f"La prime, {name} {n}." * n, f"{name} {n}", file=f"{name}.pdf")
            for name, count in (("loi", 14), ("guide", 3)) for n in range(1, count + 1)]  # fmt: skip
    folder = make_index(tmp_path_factory.mktemp("grouped") / "fiches", docs, analyzer="french")
    with listening(page_settings(folder)) as address:
        yield address


def test_a_person_searches_by_typing_and_enter(visit: Any, address: str):
    page = visit(address)
    box = page.get_by_role("combobox", name="What are you looking for?")
    box.fill("l'activité et la prime")
    box.press("Enter")
    expect(page).to_have_title("l'activité et la prime – Fiches")
    expect(page.get_by_role("heading", name="Results", exact=True)).to_be_visible()
    first = page.locator(".result").first
    expect(first.get_by_role("heading")).to_contain_text("Prime d’activité")
    assert {"prime", "activité"} <= {*first.locator(".text mark").all_inner_texts()}
    expect(page.locator("input[role=combobox]")).to_have_value("l'activité et la prime")
    page.get_by_role("link", name="Next page").click()
    expect(page.locator(".result .rank").first).to_contain_text("11")


@pytest.mark.parametrize("width", [1280, 375])
def test_a_person_groups_results_by_file_with_the_keyboard_and_goes_back(
    visit: Any, grouped: str, width: int
):
    page = visit(f"{grouped}/search?query=prime", viewport={"width": width, "height": 900})
    expect(page.locator(".result")).to_have_count(10)
    page.get_by_label("One result per file").press("Space")
    page.locator("input[role=combobox]").press("Enter")
    expect(page.locator(".result")).to_have_count(2)
    assert "group=file" in page.url
    further = page.get_by_text("13 further passages")
    passages = page.locator(".result", has=further).locator(".further a")
    expect(passages.first).to_be_hidden()
    further.press("Enter")
    expect(passages).to_have_count(11)  # ten, and the link to all results
    expect(page.get_by_text("and 3 more")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    passages.nth(2).press("Enter")
    expect(page).to_have_url(re.compile(r"/document\?docno=loi\.pdf%23\d+&query=prime&group=file"))
    page.get_by_role("link", name="Back to the results").click()
    expect(page.get_by_label("One result per file")).to_be_checked()
    expect(page.locator(".result")).to_have_count(2)
    page.go_back()
    page.go_back()
    expect(page.locator(".result")).to_have_count(2)
    page.get_by_role("button", name="Why this rank?").first.click()
    expect(page.locator(".panel").first).to_contain_text("in the ranking")
    page.get_by_text("13 further passages").click()
    page.get_by_role("link", name="Show all results one by one").click()
    expect(page.locator(".result")).to_have_count(10)
    expect(page.get_by_label("One result per file")).not_to_be_checked()


def test_a_result_leads_to_its_passage_in_a_long_document(visit: Any, address: str):
    page = visit(f"{address}/search?query=zébu")
    page.get_by_role("link", name="Rapport").click()
    expect(page.get_by_role("heading", name="Rapport")).to_be_attached()
    expect(page.locator("#passage")).to_be_in_viewport()
    expect(page.locator("mark", has_text="zébu")).to_be_in_viewport()
    page.get_by_role("link", name="Back to the results").click()
    expect(page.locator(".result")).to_have_count(1)


def test_an_answer_is_marked_in_its_passage_and_in_its_document(visit: Any, answering: str):
    page = visit(f"{answering}/search?query=prime+revenus")
    card = page.get_by_role("region", name="Answer")
    text = card.locator(".answer-text").inner_text()
    assert text
    assert card.locator(".passage .answer-mark").inner_text() == text
    expect(card).to_contain_text(re.compile(r"Confidence: \d+% \((high|medium|low)\)"))
    card.locator(".how summary").click()
    expect(card.locator(".how tbody")).to_contain_text("Reading for an answer")
    card.locator(".from a").click()
    expect(page.locator(".answer-mark").first).to_be_in_viewport()
    assert "".join(page.locator(".answer-mark").all_inner_texts()) == text.replace("\n", "")


def test_results_are_shown_before_the_answer(visit: Any, answering: str):
    page, held = visit(answering), []
    page.route("**/answer?**", lambda route: held.append(route))  # noqa: PLW0108
    page.goto(f"{answering}/search?query=prime+revenus")
    expect(page.locator(".result")).to_have_count(10)
    status = page.locator(".reading")
    expect(status).to_have_text("Reading the first documents for an answer …")
    expect(page.get_by_role("button", name="Why this rank?").first).to_be_enabled()
    held[0].continue_()
    expect(page.locator(".answer-text")).to_be_visible()
    assert page.locator(".answer").bounding_box()["y"] < page.locator("#r1").bounding_box()["y"]
    expect(status).to_have_attribute("role", "status")
    expect(status).to_have_text(f"Answer {page.locator('.answer-text').inner_text()}")


def test_an_answer_that_cannot_be_read_is_said_and_can_be_tried_again(visit: Any, answering: str):
    page = visit(answering, is_strict=False)
    page.route("**/answer?**", lambda route: route.fulfill(status=503, body="no"), times=1)
    page.goto(f"{answering}/search?query=prime+revenus")
    expect(page.locator(".reading")).to_have_text("The documents could not be read for an answer.")
    page.get_by_role("link", name="Try again").click()
    expect(page.get_by_role("region", name="Answer").locator(".answer-text")).to_be_visible()


def test_why_a_rank_opens_below_the_result_and_closes(visit: Any, address: str):
    page = visit(f"{address}/search?query=prime+revenus&model=fused")
    button = page.get_by_role("button", name="Why this rank?").first
    expect(button).to_have_attribute("aria-expanded", "false")
    button.click()
    panel = page.locator("#why1")
    expect(panel.get_by_role("heading", name="Several rankings combined")).to_be_visible()
    expect(button).to_have_attribute("aria-expanded", "true")
    expect(panel.locator(".bar .fill").first).to_be_visible()
    wide = panel.locator(".bar").evaluate_all(
        "bars => bars.map(bar => bar.querySelector('.fill').getBoundingClientRect().width"
        " / bar.getBoundingClientRect().width)"
    )
    assert all(0 <= share <= 1 for share in wide)
    assert sum(wide[:1] + wide[1:]) > 1
    button.click()
    expect(panel).to_be_hidden()
    assert page.url.endswith("fused")


def test_a_thumb_is_saved_without_leaving_the_page(visit: Any, address: str, folder: Path):
    page = visit(f"{address}/search?query=activité+et+prime", locale="fr-FR")
    first = page.locator(".result").first
    first.get_by_role("button", name="Oui, cela m’aide").click()
    expect(first.get_by_role("status")).to_have_text("Merci, votre avis est enregistré.")
    expect(first.get_by_role("button", name="Oui, cela m’aide")).to_have_attribute("aria-pressed", "true")
    first.get_by_role("button", name="Non, cela ne m’aide pas").click()
    expect(first.get_by_role("button", name="Oui, cela m’aide")).to_have_attribute("aria-pressed", "false")
    saved = [
        each for each in read_judgments(folder.with_name("judged.jsonl")) if each.query == "activité et prime"
    ]
    assert [(each.docno, each.grade) for each in saved] == [("F1", 1), ("F1", 0)]
    assert page.url.endswith("prime")


def test_a_thumb_is_still_pressed_after_the_browsers_back(visit: Any, address: str):
    page = visit(f"{address}/search?query=apprenti+prime")
    second = page.locator(".result").nth(1)
    second.get_by_role("button", name="No, this does not help").click()
    expect(second.get_by_role("status")).to_have_text("Thank you, your opinion is saved.")
    second.get_by_role("heading").get_by_role("link").click()
    expect(page.locator("article .body")).to_be_visible()
    page.go_back()
    pressed = page.locator(".judge button[aria-pressed=true]")
    expect(pressed).to_have_count(1)
    expect(second.locator("button[aria-pressed=true]")).to_have_text("No, this does not help")
    page.goto(f"{address}/search?query=Apprenti++PRIME")
    expect(second.locator("button[aria-pressed=true]")).to_have_text("No, this does not help")


def test_what_the_script_cannot_load_or_save_is_said(visit: Any, address: str):
    page = visit(f"{address}/search?query=prime+revenus", is_strict=False)
    page.route("**/judge", lambda route: route.abort())
    page.route("**/explain?**", lambda route: route.fulfill(status=503, body="no"))
    first = page.locator(".result").first
    first.get_by_role("button", name="Yes, this helps").click()
    expect(first.get_by_role("status")).to_have_text("Your opinion could not be saved. Please try again.")
    expect(first.get_by_role("button", name="Yes, this helps")).to_have_attribute("aria-pressed", "false")
    first.get_by_role("button", name="Why this rank?").click()
    expect(page.locator("#why1")).to_contain_text("Something went wrong")


def test_everything_works_without_the_script(visit: Any, address: str, folder: Path):
    page = visit(address, java_script_enabled=False)
    page.get_by_role("searchbox").fill("contrat apprenti")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name="Why this rank?").first.click()
    expect(page.get_by_role("heading", name="Why this document has rank 1")).to_be_visible()
    page.get_by_role("link", name="Back to the results").click()
    page.get_by_role("button", name="Yes, this helps").first.click()
    expect(page.get_by_role("status").first).to_have_text("Thank you, your opinion is saved.")
    expect(page.get_by_role("button", name="Yes, this helps").first).to_have_attribute("aria-pressed", "true")
    assert [
        each.docno
        for each in read_judgments(folder.with_name("judged.jsonl"))
        if each.query == "contrat apprenti"
    ] == ["F2"]
    page.locator(".how summary").click()
    expect(page.locator(".how table")).to_be_visible()


def test_two_rankings_stand_side_by_side_and_below_each_other_on_a_telephone(visit: Any, address: str):
    page = visit(address)
    page.get_by_role("link", name="Compare two rankings").click()
    page.get_by_label("What are you looking for?").fill("prime revenus")
    page.get_by_label("Second ranking").fill("dfi % 20")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("status")).to_contain_text("of the first 10 documents are in both lists.")
    left, right = (page.locator(".columns section").nth(n).bounding_box() for n in (0, 1))
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    page.set_viewport_size({"width": 360, "height": 740})
    left, right = (page.locator(".columns section").nth(n).bounding_box() for n in (0, 1))
    assert left["y"] + left["height"] <= right["y"]


def test_nothing_is_wider_than_a_telephone_and_nothing_too_small_to_touch(visit: Any, address: str):
    page = visit(address, viewport={"width": 320, "height": 640}, locale="fr-FR")
    for path in PAGES:
        page.goto(f"{address}{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, path
        small = page.locator("button, select, input:not([type=hidden]), summary").evaluate_all(
            "all => all.filter(each => each.getClientRects().length)"
            ".map(each => [each.outerHTML.slice(0, 80), each.getBoundingClientRect()])"
            ".filter(([_, box]) => box.width < 24 || box.height < 24).map(([html]) => html)"
        )
        assert not small, path


def test_marks_above_and_below_letters_stay_in_their_own_lines(visit: Any, tmp_path: Path):
    """The rows of the page between the results of two services, whose titles and texts differ in marks alone."""
    marks = "".join(map(chr, range(0x300, 0x334))) * 3
    rows = []
    for name, more in (("plain", ""), ("marked", marks)):
        docs = [Doc("A", f"prime x{more}x", f"x{more}x"), Doc("B", "prime prime", "prime prime")]
        with listening(page_settings(make_index(tmp_path / name, docs, analyzer="standard"))) as address:
            page = visit(f"{address}/search?query=prime")
            box = page.locator(".result", has_text="x").bounding_box()
            title, text = (page.locator(".result", has_text="x").locator(each) for each in ("h3", ".text"))
            top, bottom = title.bounding_box(), text.bounding_box()
            above = {**box, "y": box["y"] - 60, "height": top["y"] - box["y"] + 54}
            below = {**box, "y": bottom["y"] + bottom["height"] + 6, "height": 60}
            rows.append([page.screenshot(clip=clip) for clip in (above, below)])
    assert rows[0] == rows[1]


def test_a_title_stands_where_its_writing_begins(visit: Any, tmp_path: Path):
    docs = [Doc("A", "نص عن prime", "عنوان عن prime"), Doc("B", "prime", "prime")]
    with listening(page_settings(make_index(tmp_path / "rtl", docs, analyzer="standard"))) as address:
        for path in ("/search?query=prime", "/compare?query=prime&a=bm25&b=dfi"):
            page = visit(f"{address}{path}")
            gaps = [
                page.locator(f".list a[href*='docno={docno}&']").first.evaluate(
                    "link => { const [inner, whole] = [link, link.closest('.result')]"
                    ".map(each => each.getBoundingClientRect());"
                    " return [inner.left - whole.left, whole.right - inner.right] }"
                )
                for docno in "AB"
            ]
            (arabic_left, arabic_right), (latin_left, latin_right) = gaps
            assert arabic_right < 2 < latin_left < 50, path
            assert min(arabic_left, latin_right) > 50, path


def test_choices_can_be_read_on_a_telephone(visit: Any, folder: Path):
    pipelines = {"a-pipeline-of-long-name": "bm25"}
    model = "rrf(bm25(k1=0.9, b=0.4) % 100, lm_dirichlet(mu=1000) % 100, dfi % 100) % 50"
    for default, locale in ((None, "en-GB"), (None, "fr-FR"), (model, "fr-FR")):
        with listening(page_settings(folder, pipelines=pipelines, model=default)) as address:
            page = visit(address, viewport={"width": 375, "height": 700}, locale=locale)
            cut = page.locator("select").evaluate(
                "select => { const draw = document.createElement('canvas').getContext('2d');"
                " const style = getComputedStyle(select); draw.font = style.font;"
                " const widest = Math.max(...[...select.options].map(each => draw.measureText(each.text).width));"
                " return widest + 20 - (select.clientWidth - 2 * parseFloat(style.paddingLeft)) }"
            )
            assert cut <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_texts_have_the_contrast_of_wcag_aa(visit: Any, address: str, answering: str, scheme: str):
    page = visit(address, color_scheme=scheme)
    for path in (*(f"{address}{path}" for path in PAGES), f"{answering}/answer?query=prime+revenus"):
        page.goto(path)
        page.locator("details").evaluate_all("all => all.forEach(each => each.open = true)")
        assert page.evaluate(CONTRAST) == [], path
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", ground)[:3])) > 384) == (scheme == "light")


def test_the_keyboard_goes_through_the_page_in_its_order(visit: Any, address: str):
    page = visit(f"{address}/search?query=prime+revenus")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Go to the content")).to_be_focused()
    expect(page.get_by_role("link", name="Go to the content")).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator("input[role=combobox]")).to_be_focused()
    stops = []
    for _ in range(12):
        page.keyboard.press("Tab")
        stops.append(
            page.evaluate(
                "(({y, x}) => [Math.round((y + scrollY) / 40), x])(document.activeElement.getBoundingClientRect())"
            )
        )
        style = page.evaluate(
            "(each => [getComputedStyle(each).outlineStyle, getComputedStyle(each).outlineWidth])"
            "(document.activeElement)"
        )
        assert style != ["none", "0px"]
    assert [row for row, _ in stops] == sorted(row for row, _ in stops)


def test_nothing_moves_for_those_who_want_no_motion(visit: Any, address: str):
    moving = (
        "[...document.querySelectorAll('*')].filter(each => parseFloat(getComputedStyle(each)"
        ".transitionDuration) > 0 || getComputedStyle(each).scrollBehavior === 'smooth').length"
    )
    assert visit(f"{address}/search?query=prime", reduced_motion="reduce").evaluate(moving) == 0
    assert visit(f"{address}/search?query=prime", reduced_motion="no-preference").evaluate(moving) > 0


def test_the_policy_stops_what_would_slip_through(visit: Any, address: str):
    """Even markup that was put in runs nothing: the policy is in force."""
    page = visit(f"{address}/search?query=prime", is_strict=False)
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=/x onerror=\"window.ran = 1\">')")
    with page.expect_event("console"):
        page.evaluate(
            "document.body.append(Object.assign(document.createElement('script'), {text: 'ran = 2'}))"
        )
    assert page.evaluate("window.ran") is None


def test_hostile_texts_run_nothing(visit: Any, tmp_path: Path):
    folder = make_index(tmp_path / "hostile", hostile_docs(), analyzer="standard")
    settings = page_settings(folder, judgments=tmp_path / "judged.jsonl", title=HOSTILE[0])
    markup = "main img, main b, main script, main textarea, main svg[onload]"
    with listening(settings) as address:
        page = visit(f"{address}/search?query=prime")
        for query in (text for text in HOSTILE if "\x00" not in text):
            page.locator("input[role=combobox]").fill(f"{query} prime")
            page.locator("input[role=combobox]").press("Enter")
            has_phrase = query.count('"') == 2
            expect(page.locator(".result")).to_have_count(1 if has_phrase else 5)
            expect(page.locator("input[role=combobox]")).to_have_value(" ".join(f"{query} prime".split()))
            page.get_by_role("button", name="Why this rank?").first.click()
            expect(page.locator("#why1 .stages")).to_be_visible()
            assert page.locator(markup).count() == 0
        page.get_by_role("button", name="Yes, this helps").first.click()
        expect(page.get_by_role("status").first).to_have_text("Thank you, your opinion is saved.")
        for link in page.locator(".result h3 a").evaluate_all("all => all.map(each => each.href)"):
            page.goto(link)
            assert page.locator(markup).count() == 0
