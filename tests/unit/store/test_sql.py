"""What the SQL stores share: forms of rows and statements, and migrations."""

import itertools
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.ports.store import StoreDamaged
from antiphon.store.migrations import Migration, migrations, pending
from antiphon.store.sql.rows import Damage, label_needle, labels_column
from antiphon.store.sql.statements import CHUNKS, chunks, insert
from antiphon.store.sqlite.driver import translated

LABELS = st.dictionaries(st.text('["],ab\\', max_size=6), st.text('["],ab\\', max_size=6), max_size=4)


@given(LABELS, st.text('["],ab\\', max_size=6), st.text('["],ab\\', max_size=6))
def test_a_label_is_found_exactly_where_it_is(labels: dict[str, str], name: str, value: str) -> None:
    assert (label_needle(name, value) in labels_column(labels)) == (labels.get(name) == value)


@given(st.integers(0, 400))
def test_rows_are_inserted_in_order_and_in_few_forms_of_statement(count: int) -> None:
    rows = [(number, f"n{number}") for number in range(count)]
    forms, values = set[str](), list[Any]()
    command: Generator[Any, Any, Any] = insert("t", "a, b", rows, "RETURNING a")
    try:
        sql, args = next(command)
        while True:
            forms.add(sql)
            values += args
            sql, args = command.send([(args[0],)])
    except StopIteration:
        pass
    assert values == list(itertools.chain.from_iterable(rows))
    assert len(forms) <= len(CHUNKS)


def test_statements_number_their_parameters() -> None:
    sql, args = next(insert("t", "a, b", [(1, 2), (3, 4)]))
    assert sql == "INSERT INTO t (a, b) VALUES ($1, $2), ($3, $4) "
    assert args == (1, 2, 3, 4)
    assert translated("SELECT $12, $1") == "SELECT ?12, ?1"


def test_lists_of_values_come_in_one_form() -> None:
    values = [str(number) for number in range(130)]
    found = list(chunks(values))
    assert {len(chunk) for chunk in found} == {64}
    assert set(itertools.chain.from_iterable(found)) == set(values)
    assert list(chunks([])) == []


def test_only_the_steps_that_are_missing_are_taken() -> None:
    steps = tuple(Migration(number, f"{number}.sql", "") for number in (1, 2, 3))
    assert [step.number for step in pending(steps, 0, "x")] == [1, 2, 3]
    assert [step.number for step in pending(steps, 2, "x")] == [3]
    assert pending(steps, 3, "x") == ()
    with pytest.raises(StoreDamaged, match="x has schema 4; this antiphon knows schemas up to 3"):
        pending(steps, 4, "x")


@pytest.mark.parametrize("package", ["antiphon.store.sqlite.migrations"])
def test_migrations_are_numbered_from_one(package: str) -> None:
    steps = migrations(package)
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    assert all(step.sql.strip() for step in steps)


def test_an_unreadable_row_of_a_list_is_counted() -> None:
    damage = Damage()
    assert damage.listed("message", "ses_1", int, "3") == 3
    assert damage.listed("message", "ses_1", int, "x") is None
    assert damage.rows == 1
