from __future__ import annotations

import io
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.console import Console

from telerank.evaluation.compare import (
    changes_table,
    compare_evaluations,
    comparison_table,
    depth_table,
    difference_table,
    means_table,
    query_table,
)
from telerank.evaluation.measures import Evaluation
from telerank.show.tables import (
    Cell,
    Table,
    render_html,
    render_html_page,
    render_latex,
    render_markdown,
    render_terminal,
    show_p,
)

TABLE = Table.of(
    ("system", "nDCG@10"),
    [["bm25_a|b", Cell("0.5", marks="†")], ["[x] & <y>", Cell("-0.25", strong=True)]],
    caption="50% of $x",
    notes=["† p < 0.05"],
)


def shown(table: Table, width: int = 100) -> str:
    file = io.StringIO()
    Console(file=file, width=width).print(render_terminal(table))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def test_where_a_table_is_too_wide_heads_of_numbers_are_broken_and_numbers_are_not():
    heads = ("system", "RR@10", "RR@10 test, paper")
    table = Table.of(heads, [["a long name of a system", "0.349", "0.186"], ["b", "0.187", "–"]])
    wide, narrow = ([line.split() for line in shown(table, width).split("\n") if line] for width in (60, 40))
    assert wide[0] == ["system", "RR@10", "RR@10", "test,", "paper"]
    assert narrow[:3] == [["RR@10"], ["test,"], ["system", "RR@10", "paper"]]
    assert narrow[4][-2:] == ["0.349", "0.186"]


def test_a_table_is_split_into_as_few_as_fit():
    heads = [f"measure{n}" for n in range(7)]
    lines = shown(Table.of(("system", *heads), [["bm25", *(["0.123"] * 7)]]), 40).splitlines()
    assert max(map(len, lines)) <= 40
    parts = [line.split()[1:] for line in lines if line.split()[:1] == ["system"]]
    assert parts == [heads[:3], heads[3:6], heads[6:]]


def test_on_a_terminal_digits_stand_under_each_other():
    assert shown(TABLE) == (
        "50% of $x\n\n system     nDCG@10\n ──────────────────\n bm25_a|b      0.5†\n"
        " [x] & <y>   -0.25\n\n† p < 0.05"
    )  # fmt: skip


def test_in_markdown():
    assert render_markdown(TABLE) == (
        "**50% of $x**\n\n| system | nDCG@10 |\n| :-- | --: |\n| bm25\\_a\\|b | 0.5<sup>†</sup> |\n"
        "| \\[x\\] & \\<y\\> | **-0.25** |\n\n† p \\< 0.05\n"
    )


def test_in_latex():
    assert render_latex(TABLE) == (
        "\\begin{table}\n\\centering\n\\caption{50\\% of \\$x}\n\\begin{tabular}{lr}\n\\toprule\n"
        "system & nDCG@10 \\\\\n\\midrule\nbm25\\_a|b & 0.5\\textsuperscript{$\\dagger$} \\\\\n"
        "{[}x{]} \\& \\textless{}y\\textgreater{} & \\textbf{$-$0.25} \\\\\n\\bottomrule\n\\end{tabular}\n"
        "\\par\\smallskip{\\footnotesize $\\dagger$ p \\textless{} 0.05}\n\\end{table}\n"
    )


def test_in_html():
    assert render_html(TABLE) == (
        '<figure>\n<table>\n<caption>50% of $x</caption>\n<thead>\n<tr><th scope="col">system</th>'
        '<th scope="col" class="n">nDCG@10</th></tr>\n</thead>\n<tbody>\n<tr><td>bm25_a|b</td>'
        '<td class="n">0.5<sup>†</sup></td></tr>\n<tr><td>[x] &amp; &lt;y&gt;</td>'
        '<td class="n"><strong>-0.25</strong></td></tr>\n</tbody>\n</table>\n<figcaption>\n'
        "<p>† p &lt; 0.05</p>\n</figcaption>\n</figure>\n"
    )


class Balance(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_is_whole():
    page = render_html_page("Runs <1>", [TABLE, TABLE])
    parser = Balance()
    parser.feed(page)
    assert parser.open == []
    assert page.count("<table>") == 2
    assert "<title>Runs &lt;1&gt;</title>" in page


def test_an_empty_table_has_a_head_and_a_row_of_another_length_is_an_error():
    empty = Table.of(("a", "b"), [])
    assert render_markdown(empty) == "| a | b |\n| :-- | --: |\n"
    assert "a & b" in render_latex(empty)
    with pytest.raises(ValueError, match="a row of 1 cells in a table of 2 columns"):
        Table.of(("a", "b"), [["1"]])


def evaluation(**values: list[float]) -> Evaluation:
    count = len(next(iter(values.values())))
    return Evaluation(
        tuple(f"q{i}" for i in range(count)), {name: np.array(value) for name, value in values.items()}
    )


STEPS = [0.1 * i for i in range(8)]
SYSTEMS = {
    "base": evaluation(AP=[0.0] * 8, RR=[0.5] * 8),
    "new": evaluation(AP=STEPS, RR=[0.5] * 7 + [0.25]),
}


def test_the_best_of_several_means_are_strong():
    table = means_table(SYSTEMS, caption="Means")
    assert table.columns == ("system", "AP", "RR")
    assert table.rows[0] == (Cell("base"), Cell("0.0000"), Cell("0.5000", strong=True))
    assert table.rows[1] == (Cell("new"), Cell("0.3500", strong=True), Cell("0.4688"))
    assert not means_table({"base": SYSTEMS["base"]}).rows[0][1].strong
    alike = means_table({"a": evaluation(AP=[0.12341]), "b": evaluation(AP=[0.12342])})
    assert [row[1].strong for row in alike.rows] == [True, True]


def test_a_comparison_marks_what_differs_and_says_how_it_was_tested():
    table = comparison_table(compare_evaluations(SYSTEMS, ["base"]))
    assert table.rows[1][1] == Cell("0.3500", strong=True, marks="†")
    assert table.rows[1][2].marks == ""
    (note,) = table.notes
    assert note.startswith("† differs from base (p < 0.05). Paired t-test over 8 queries, Holm's correction")


def test_a_difference_is_told_with_all_that_is_known():
    table = difference_table(compare_evaluations(SYSTEMS, ["base"]), "base")
    heads = "system, measure, mean, delta, delta %, p, d, 95% interval, +/=/-"
    assert ", ".join(table.columns) == heads
    texts = [cell.text for cell in table.rows[0]]
    assert texts[:5] == ["new", "AP", "0.3500", "+0.3500", "–"]
    assert (texts[6], texts[8]) == ("+1.43", "7/1/0")
    assert [cell.text for cell in table.rows[1]][3:6] == ["-0.0312", "-6.2", "0.351"]
    small = [show_p(p) for p in (0.0, 0.00099, 0.001, 0.04999, 1.0)]
    assert small == ["<0.001", "<0.001", "0.001", "0.050", "1.000"]


def test_the_queries_that_changed_most_are_told_with_their_values():
    table = changes_table(compare_evaluations(SYSTEMS, ["base"]).with_changes(2), "base")
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["new", "AP", "q7", "0.0000", "0.7000", "+0.7000"],
        ["new", "AP", "q6", "0.0000", "0.6000", "+0.6000"],
        ["new", "RR", "q7", "0.5000", "0.2500", "-0.2500"],
    ]


def test_depths_and_queries_have_tables():
    table = depth_table({"bm25": {"R": [0.5, 0.75]}}, [1, 10])
    assert (table.columns, [cell.text for cell in table.rows[0]]) == (
        ("system", "measure", "@1", "@10"),
        ["bm25", "R", "0.500", "0.750"],
    )
    rows = [[cell.text for cell in row] for row in query_table(SYSTEMS).rows]
    assert rows[2:4] == [["q1", "base", "0.0000", "0.5000"], ["q1", "new", "0.1000", "0.5000"]]


def test_columns_of_words_are_folded_between_words():
    listed = "english-long-1, english-long-2, far-english"
    rows = [
        ["piaf/answers-end-to-end", "Answers end to end", listed],
        ["demo", "First stages on PIAF", listed],
    ]
    lines = shown(Table.of(("name", "title", "data"), rows, left=3), 60).splitlines()
    words = [word for line in lines for word in line.split()]
    assert {"piaf/answers-end-to-end", "english-long-1,", "far-english"} <= set(words)
    assert max(map(len, lines)) <= 60


def test_facts_are_pivoted_and_numbers_have_one_form():
    facts = {"BM25": {"AP": 0.25, "queries": 1000}, "dense": {"AP": float("nan"), "time": float("inf")}}
    table = Table.pivot(facts, caption="Facts", form=".2f")
    assert table.columns == ("system", "AP", "queries", "time")
    texts = [[cell.text for cell in row] for row in table.rows]
    assert texts == [["BM25", "0.25", "1,000", "–"], ["dense", "–", "–", "+∞"]]
