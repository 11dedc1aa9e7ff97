"""Addresses of stores, as they may be printed."""

import pytest

from antiphon.ports.store import OtherFeed, StoreDamaged
from antiphon.store.address import is_postgres, shown
from antiphon.store.identity import Identity


@pytest.mark.parametrize(
    ("address", "printed"),
    [
        ("postgresql://u:p@h:5432/db?sslmode=disable", "postgresql://u:[hidden]@h:5432/db?sslmode=disable"),
        ("postgres://u@h1:1,h2:2/db?target_session_attrs=primary", None),
        (
            "postgresql://h/db?user=u&password=p&sslpassword=q",
            "postgresql://h/db?user=u&password=[hidden]&sslpassword=[hidden]",
        ),
        ("postgresql://u:p@[::1/db", "postgresql://[hidden]"),
        ("postgresql:///db", None),
        ("mysql://u:p:q@h/db", "mysql://u:[hidden]@h/db"),
        ("/var/lib/antiphon", None),
        ("sqlite", None),
    ],
)
def test_an_address_is_printed_without_its_password(address: str, printed: str | None) -> None:
    assert shown(address) == (printed or address)


def test_a_database_is_told_from_a_directory() -> None:
    assert [is_postgres(each) for each in ("postgresql://h/db", "postgres://h/db")] == [True, True]
    assert not any(is_postgres(each) for each in ("postgresql", "/postgresql://x/..", "sqlite", "./postgres", ""))


def test_a_position_is_told_with_the_name_of_the_feed_and_of_no_other() -> None:
    original, copy = Identity(epoch="e"), Identity(epoch="e", feed="abc")
    assert (original.told("1.2"), original.own("1.2")) == ("1.2", "1.2")
    assert (copy.told("1.2"), copy.own("abc-1.2")) == ("abc-1.2", "1.2")
    for identity, position in ((original, "abc-1.2"), (original, "-1.2"), (copy, "1.2"), (copy, "abd-1.2"), (copy, "")):
        with pytest.raises(OtherFeed):
            identity.own(position)


def test_an_unfinished_copy_is_no_store() -> None:
    assert Identity.read({"epoch": "e", "feed": "f", "version": "3"}, "it") == Identity(epoch="e", feed="f")
    with pytest.raises(StoreDamaged, match=r"it is a copy that is not finished.*antiphon store copy"):
        Identity.read({"epoch": "e", "copy": "{}"}, "it")
