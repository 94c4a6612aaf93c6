"""The printed results are whole, agree with each other, and where they do not, that is said."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from homerl.envs.personalhome.bench.printed import TABLES, Printed, printed
from homerl.envs.personalhome.tasks.metrics import RELEVANT

SIZES = {  # rows, settings, columns
    "text": (11, 2, 6),
    "multimodal": (2, 2, 6),
    "personalisation": (3, 2, 2),
    "reflection": (2, 2, 2),
    "names": (3, 2, 6),
    "rank_sum": (11, 2, 1),
    "deviations": (12, 2, 4),
}


def is_doubted(name, row, setting, column):
    return bool(printed().doubts_about(name, row, setting, column))


def test_every_table_is_whole():
    assert set(SIZES) == set(TABLES)
    for name, (rows, settings, columns) in SIZES.items():
        table = printed().table(name)
        assert len(table.rows) == rows and len(table.columns) == columns
        assert all(len(row.settings()) == settings for row in table.rows)
        assert len({(row.model, row.modality) for row in table.rows}) == rows


def test_the_same_models_everywhere():
    eleven = {row.model for row in printed().text.rows}
    assert len(eleven) == 11 and all({row.model for row in printed().table(name).rows} <= eleven for name in TABLES)
    assert eleven == {row.model for row in printed().rank_sum.rows} == {row.model for row in printed().deviations.rows}


def test_figures_are_of_their_scale():
    scales = {"IG": 100, "CF": 100, "MC": 100, "FR": 1 / RELEVANT, "RPJ_REL": 100, "RPJ_ABS": 5, "validity": 1, "RRS": 27}
    for name in TABLES:
        table = printed().table(name)
        for row in table.rows:
            for figures in row.settings().values():
                for column, value in zip(table.columns, figures):
                    low = -100 if name == "personalisation" else 0
                    assert low <= value <= scales.get(column.split()[0], 100)


def test_some_figures_as_they_stand_in_the_paper():
    text, both = printed().text, printed().multimodal
    assert text.figure("GPT-4", "agentic", "CF") == 62.9 and text.figure("Gemini 2.5 Pro", "agentic", "RPJ_REL") == 35.4
    assert both.figure("Gemini 2.5 Pro", "agentic", "CF", "video") == 77.16
    assert printed().reflection.figure("Gemini 2.5 Pro", "after", "validity") == 0.428
    with pytest.raises(KeyError):
        text.figure("GPT-5", "sole", "IG")


@pytest.mark.parametrize(
    ("name", "column", "other", "of_other"),
    [("names", f"{task} personalised", "text", task) for task in ("IG", "CF", "MC")]
    + [("deviations", column, "text", column) for column in ("FR", "validity")],
)
def test_tables_agree_or_are_doubted(name, column, other, of_other):
    for row in printed().table(name).rows:
        against = other if row.modality == "text" else "multimodal"
        for setting in ("sole", "agentic"):
            one = printed().table(name).figure(row.model, setting, column, row.modality)
            two = printed().table(against).figure(row.model, setting, of_other, row.modality)
            assert one == two or is_doubted(name, row, setting, column), (row.model, setting, one, two)


def test_differences_are_those_of_the_tables():
    for row in printed().personalisation.rows:
        for setting, figures in row.settings().items():
            for task, said in zip(printed().personalisation.columns, figures):
                named, by_id = (
                    printed().names.figure(row.model, setting, f"{task} {of}") for of in ("personalised", "generic")
                )
                assert said == pytest.approx(named - by_id)


def test_win_rates_that_do_not_add_up_are_doubted():
    for setting in ("sole", "agentic"):
        total = sum(printed().text.figure(row.model, setting, "RPJ_REL") for row in printed().text.rows)
        whole = abs(total - 100) < 0.5
        assert whole != is_doubted("text", printed().text.rows[0], setting, "RPJ_REL"), total


def test_deviations_show_that_map_at_1_was_divided():
    """A variable in {0, 1/3} with mean m has the deviation sqrt(m (1/3 - m)); rounding leaves little doubt."""
    for row in printed().deviations.rows:
        for mean, deviation, *_ in row.settings().values():
            assert (mean * (1 / 3 - mean)) ** 0.5 == pytest.approx(deviation, abs=0.0012)


def test_what_is_impossible_or_incomplete_is_refused():
    whole = printed().model_dump()
    for broken in (
        whole | {"doubts": [{"table": "text", "setting": "sole", "model": "GPT-5", "column": None, "why": "?"}]},
        whole | {"rank_sum": {"columns": ["RRS", "more"], "rows": whole["rank_sum"]["rows"]}},
        {name: table for name, table in whole.items() if name != "names"},
    ):
        with pytest.raises(ValidationError):
            Printed.model_validate(broken)
