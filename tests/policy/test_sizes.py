"""Sizes, counts and percentages, there and back."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_ci.policy.edit import exact_size
from onnx_ci.util.sizes import (
    SIZE_UNITS,
    format_percent,
    format_size,
    parse_count,
    parse_fraction,
    parse_size,
)


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("25 MB", 25_000_000),
        ("25MB", 25_000_000),
        ("25 mb", 25_000_000),
        ("  25  MB ", 25_000_000),
        ("1.5 MiB", 1_572_864),
        ("300 kB", 300_000),
        ("300 KB", 300_000),
        ("1 KiB", 1024),
        ("12 GB", 12_000_000_000),
        ("2 TiB", 2**41),
        ("512 B", 512),
        ("1_000", 1000),
        ("1e6", 1_000_000),
        (12345, 12345),
        (25.0, 25),
        (1e16, 10**16),
        ("9007199254740993", 2**53 + 1),
        ("1.1 kB", 1100),
        ("0", 0),
    ],
)
def test_sizes(written: str | int | float, size: int) -> None:
    assert parse_size(written) == size


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("25 MX", ["'25 MX'", "'MX'", "did you mean 'MB'?"]),
        ("25M", ["did you mean 'MB'?"]),
        ("25 megabytes", ["did you mean 'MB'?"]),
        ("25 MiBs", ["did you mean 'MiB'?"]),
        ("25 %", ["known are B, kB"]),
        ("lots", ["'lots' is not a size"]),
        ("", ["'' is not a size"]),
        ("-5 MB", ["'-5 MB'"]),
        (-5, ["'-5'"]),
        ("0x10", ["'0x10'"]),
        ("1:30", ["'1:30'"]),
        ("25 MB MB", ["'25 MB MB'"]),
        ("٢٥ MB", ["is not a size"]),
        (1.5, ["whole number"]),
        (float("nan"), ["'nan'"]),
        (float("inf"), ["'inf'"]),
        (True, ["'True'"]),
        ("9e99 TB", ["too large"]),
        ("9" * 9999, ["…"]),
    ],
)
def test_bad_sizes_say_what_is_right(written: str | int | float, words: list[str]) -> None:
    with pytest.raises(ValueError, match="for example 25 MB") as caught:
        parse_size(written)
    assert all(word in str(caught.value) for word in words), caught.value
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("written", "number"),
    [("12M", 12_000_000), ("1.5B", 1_500_000_000), ("340k", 340_000), ("340 K", 340_000), (12000, 12000)],
)
def test_counts(written: str | int, number: int) -> None:
    assert parse_count(written) == number


@pytest.mark.parametrize(("written", "meant"), [("12 millions", "'M'"), ("12G", "k, M, B"), ("12kk", "'k'")])
def test_bad_counts(written: str, meant: str) -> None:
    with pytest.raises(ValueError, match="for example 12M") as caught:
        parse_count(written)
    assert meant in str(caught.value)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("5%", 0.05),
        ("99.9%", 0.999),
        ("110 %", 1.1),
        (0.05, 0.05),
        ("0.05", 0.05),
        (1, 1.0),
        (1e-7, 1e-7),
        ("1e1%", 0.1),
    ],
)
def test_fractions(written: str | float, value: float) -> None:
    assert parse_fraction(written) == value


@pytest.mark.parametrize("written", ["5 percent", "-5%", "5%%", "%", "", "nan", "five", True, "5 MB"])
def test_bad_fractions(written: str) -> None:
    with pytest.raises(ValueError, match="for example 5%"):
        parse_fraction(written)


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1500, "1.5 kB"),
        (999_499, "999 kB"),
        (999_500, "1 MB"),
        (47_123_456, "47.1 MB"),
        (358_000_000, "358 MB"),
        (5 * 10**15, "5000 TB"),
        (-1500, "-1.5 kB"),
    ],
)
def test_shown_sizes(size: int, shown: str) -> None:
    assert format_size(size) == shown


@pytest.mark.parametrize(
    ("fraction", "shown"),
    [
        (0, "0%"),
        (0.05, "5%"),
        (0.999, "99.9%"),
        (1.1, "110%"),
        (12.3, "1230%"),
        (1e-6, "<0.01%"),
        (-1e-6, ">-0.01%"),
    ],
)
def test_shown_percentages(fraction: float, shown: str) -> None:
    assert format_percent(fraction) == shown


@given(st.integers(0, 2**62))
def test_a_shown_size_reads_back_within_three_digits(size: int) -> None:
    assert parse_size(format_size(size)) == pytest.approx(size, rel=0.005)


@given(st.integers(0, 10**6), st.sampled_from(sorted(SIZE_UNITS)), st.sampled_from(["", " "]))
def test_every_unit_reads_back(number: int, unit: str, space: str) -> None:
    assert parse_size(f"{number}{space}{unit}") == number * SIZE_UNITS[unit]


@given(st.floats(0.0005, 9.9))
def test_a_shown_percentage_reads_back(fraction: float) -> None:
    assert parse_fraction(format_percent(fraction)) == pytest.approx(fraction, rel=0.005)


@given(st.text(max_size=20))
def test_any_text_is_a_size_or_a_value_error(text: str) -> None:
    with suppress(ValueError):
        assert parse_size(text) >= 0


@given(st.integers(0, 2**63 - 1) | st.sampled_from([2**53 - 1, 2**53 + 1, 9_100 * 10**12, 2**63 - 1]))
def test_a_size_that_is_written_to_the_last_byte_reads_back(size: int) -> None:
    assert parse_size(exact_size(size)) == size
