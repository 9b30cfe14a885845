"""URLs of OpenSearch and Elasticsearch; values as terms in their order."""

from itertools import pairwise

import pytest

from wenmai.errors import InvalidInput
from wenmai.stores.elasticsearch.address import Address, parse_url
from wenmai.stores.elasticsearch.entries import LONGEST_TERM, LONGEST_VALUE, filters_of, term_token, value_token
from wenmai.stores.structs import FieldValue, Range


def test_a_url_names_server_login_and_prefix() -> None:
    """Scheme, login, port and path are taken from the URL, and what is left out has a default."""
    assert parse_url("opensearch://search") == Address("opensearch", "http://search:9200", None, "wenmai", 5, 1)
    given = parse_url("elasticsearch+https://clerk:s%2Fcr%40t@[::1]:9243/bank_credit?timeout=30&shards=3")
    assert given == Address("elasticsearch", "https://[::1]:9243", ("clerk", "s/cr@t"), "bank_credit", 30, 3)


@pytest.mark.parametrize(
    ("url", "field"),
    [
        ("opensearch://", "store"),
        ("opensearch://u:secret@host:port/x", "store"),
        ("opensearch://host/Upper", "store.prefix"),
        ("opensearch://host/a/b", "store.prefix"),
        ("opensearch://host/_hidden", "store.prefix"),
        ("opensearch://host?timeout=0", "store.timeout"),
        ("opensearch://host?timeout=x", "store.timeout"),
        ("opensearch://host?shards=65", "store.shards"),
        ("opensearch://host?prefix=a", "store.prefix"),
    ],
)
def test_an_invalid_url_is_refused_without_its_password(url: str, field: str) -> None:
    """The error names the part that is not allowed."""
    with pytest.raises(InvalidInput) as caught:
        parse_url(url)
    assert caught.value.field == field
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "ascending",
    [
        [-1.7e308, -(2**53) + 1, -2.5, -1, -1e-9, 0, 5e-324, 1, 1.5, 2, 2**53 - 2, 2**53 - 1, 1.5e300],
        ["", "\0", "A", "a", "ab", "b", "严", "\ue000", "\U00020bb7"],
    ],
)
def test_terms_of_values_have_the_order_of_the_values(ascending: list[FieldValue]) -> None:
    """Numbers, whole or not, are in their order, and texts in that of code points, which is that of UTF-8."""
    tokens = [value_token("field", value).encode() for value in ascending]
    assert all(before < after for before, after in pairwise(tokens))
    [low] = filters_of({"field": Range(low=ascending[3])})
    [high] = filters_of({"field": Range(high=ascending[3])})
    above, below = low["range"]["values"], high["range"]["values"]
    assert [above["gte"].encode() <= token < above["lt"].encode() for token in tokens] == [
        n >= 3 for n in range(len(tokens))
    ]
    assert [below["gte"].encode() <= token < below["lt"].encode() for token in tokens] == [
        n < 3 for n in range(len(tokens))
    ]


def test_equal_values_have_one_term_and_long_ones_a_short_one() -> None:
    """One zero, one 2, no text equal to a number; what is too long for the server ends in a digest."""
    assert value_token("x", 0) == value_token("x", -0.0)
    assert value_token("x", 2) == value_token("x", 2.0) != value_token("x", "2")
    assert value_token("x", 2) != value_token("y", 2)
    long = "长" * LONGEST_VALUE
    assert value_token("x", long + "a") != value_token("x", long + "b")
    assert len(value_token("x", long + "a").encode()) < 32_766
    assert term_token("w" * LONGEST_TERM) == "w" * LONGEST_TERM
    assert len({term_token("w" * (LONGEST_TERM + n)) for n in (1, 2, 3)}) == 3
    assert len(term_token("w" * 10_000)) < LONGEST_TERM
