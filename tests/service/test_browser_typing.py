"""What is typed, in a browser: suggestions by keyboard, spelling and its way back, follow-ups, facets on a telephone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from small_pages import DOCS, page_settings
from small_service import listening, make_index
from telerank.types import Doc

CHROMIUM = Path("/usr/bin/chromium")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no {CHROMIUM}")]
NEXT = "Et pour un apprenti ?"
COLUMNED = [
    Doc(doc.docno, doc.text, doc.title, doc.url,
        columns={"type": ("fiche", "actualité", "note")[n % 3], "date": f"20{20 + n % 5}-0{1 + n % 9}-11",
                 "amount": n * 10, "une colonne au nom très long que personne n'abrège": "valeur"})
    for n, doc in enumerate(DOCS)
]  # fmt: skip
FACETS = ("type", "date:year", "amount")


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Iterator[str]:
    folder = make_index(tmp_path_factory.mktemp("typing") / "fiches", COLUMNED, analyzer="french")
    with listening(page_settings(folder, facets=FACETS)) as address:
        yield address


def box_of(page: Any) -> Any:
    return page.locator("input[role=combobox]")


def test_suggestions_are_a_list_box_that_the_keyboard_goes_through(visit: Any, address: str):
    page = visit(address)
    box, listed = box_of(page), page.get_by_role("listbox")
    expect(box).to_have_attribute("aria-expanded", "false")
    box.press_sequentially("pri")
    options = page.get_by_role("option")
    expect(listed).to_be_visible()
    expect(box).to_have_attribute("aria-expanded", "true")
    texts = options.all_inner_texts()
    assert texts[0] == "Prime d’activité"
    box.press("ArrowDown")
    expect(box).to_have_value(texts[0])
    expect(options.first).to_have_attribute("aria-selected", "true")
    expect(box).to_have_attribute("aria-activedescendant", options.first.get_attribute("id"))
    for _ in texts:  # behind the last one is what was typed
        box.press("ArrowDown")
    expect(box).to_have_value("pri")
    assert box.get_attribute("aria-activedescendant") is None
    box.press("ArrowUp")
    expect(box).to_have_value(texts[-1])
    box.press("Escape")
    expect(box).to_have_value("pri")
    expect(listed).to_be_hidden()
    box.press("m")  # asks again
    expect(listed).to_be_hidden()
    box.press("Backspace")
    expect(listed).to_be_visible()
    box.press("ArrowDown")
    box.press("Enter")
    expect(page).to_have_title(f"{texts[0]} – Fiches")
    expect(page.locator(".result").first).to_contain_text("Prime d’activité")


def test_a_suggestion_is_chosen_by_a_click_and_none_is_left_when_the_box_is(visit: Any, address: str):
    page = visit(address)
    box_of(page).press_sequentially("alloc")
    page.get_by_role("option", name="Allocation logement").click()
    expect(page).to_have_title("Allocation logement – Fiches")
    box_of(page).press("End")
    box_of(page).press_sequentially(" fic")
    expect(page.get_by_role("listbox")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("listbox")).to_be_hidden()


def test_what_was_meant_is_searched_and_one_click_searches_the_words_as_typed(visit: Any, address: str):
    page = visit(address)
    box_of(page).fill("aprenti")
    box_of(page).press("Enter")
    expect(page.get_by_text("These are the results for “apprenti”")).to_be_visible()
    expect(page.locator(".result").first).to_contain_text("Apprenti")
    page.locator("a[href*='spelling=off']").click()
    expect(page.get_by_role("main")).to_contain_text("Nothing found")
    expect(box_of(page)).to_have_value("aprenti")
    page.goto(f"{address}/search?query=prime+aprenti")
    page.get_by_role("link", name="prime apprenti").press("Enter")
    expect(page).to_have_title("prime apprenti – Fiches")
    expect(page.get_by_text("Did you mean")).to_have_count(0)


def test_a_follow_up_is_completed_and_one_click_searches_it_as_typed(visit: Any, address: str):
    page = visit(f"{address}/search?query=Quelle+est+la+prime+d%27activit%C3%A9+pour+un+salari%C3%A9+%3F")
    box_of(page).fill(NEXT)
    box_of(page).press("Enter")
    notice = page.locator(".notice", has_text=NEXT).first
    expect(notice).to_contain_text("prime")
    notice.get_by_role("link").click()
    expect(box_of(page)).to_have_value(NEXT)
    expect(page.locator(".notice", has_text="salarié")).to_have_count(0)


def test_facets_are_chosen_and_removed_by_keyboard_on_a_telephone(visit: Any, address: str, tmp_path: Path):
    page = visit(f"{address}/search?query=prime", viewport={"width": 375, "height": 700}, locale="fr-FR")
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    for summary in page.locator("summary").all():
        if summary.is_visible() and summary.evaluate("each => !each.parentElement.open"):
            summary.press("Enter")
    fiche = page.locator("a", has_text="fiche").filter(has=page.locator(".count")).first
    count = int(fiche.locator(".count").inner_text())
    fiche.press("Enter")
    chip = page.locator("a.chip")
    expect(chip).to_have_count(1)
    assert 0 < page.locator(".result").count() <= count
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    assert page.locator("a.chip").evaluate("each => each.getBoundingClientRect().height") >= 24
    chip.press("Enter")
    expect(page.locator("a.chip")).to_have_count(0)
    box_of(page).fill("")
    box_of(page).press_sequentially("fiche 1")
    expect(page.get_by_role("listbox")).to_be_visible()
    bounds = page.get_by_role("listbox").bounding_box()
    assert bounds["x"] >= 0
    assert bounds["x"] + bounds["width"] <= 375
