"""A number as text: the nine digits of a classic receipt, and the shortest digits of JavaScript."""

from __future__ import annotations

import math
import re
from decimal import ROUND_HALF_UP, Decimal

from backproof.errors import InputError

DIGITS = 9  # significant digits that a classic receipt carries
LEAST_EXPONENT = -13  # 1e-13 is the smallest magnitude that the format can carry
MOST_EXPONENT = 6  # 9999999.99 is the largest

_PLAIN_DECIMAL = re.compile(r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?\Z")


class NumberRangeError(InputError):
    """A value that the nine-digit plain decimal of a classic receipt cannot carry."""


def canonical_number(value: float) -> str:
    """The canonical text of a number: 17 significant digits, rounded half to even to 9, never an exponent.

    The rounding is a double one (17, then 9) because that is what the format says; rounding the binary value
    directly to nine digits would differ on decimal ties.
    """
    value = float(value)
    if not math.isfinite(value):
        raise NumberRangeError(f"{value} is not a number that a receipt can carry; only finite values are written")
    if value == 0:
        return "0.000000000"
    mantissa, exponent = f"{abs(value):.16e}".split("e")
    return _nine_digits(value < 0, mantissa.replace(".", ""), int(exponent), value)


def canonical_decimal(text: str) -> str:
    """The canonical text of a plain decimal such as `-0.0125`: its ninth digit rounded half to even."""
    if not _PLAIN_DECIMAL.match(text):
        raise NumberRangeError(
            f"{text!r} is not a plain decimal (digits, a point, digits; no exponent, no leading zeros)"
        )
    negative = text.startswith("-")
    whole, _, fraction = text.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return "0.000000000"
    return _nine_digits(negative, digits, len(digits) - len(fraction) - 1, text)


def _nine_digits(negative: bool, digits: str, exponent: int, said: object) -> str:
    _check_range(said, exponent)
    kept, dropped = int(digits[:DIGITS].ljust(DIGITS, "0")), digits[DIGITS:]
    half = "5".ljust(len(dropped), "0")
    if dropped > half or (dropped == half and dropped and kept % 2):
        kept += 1
        if kept == 10**DIGITS:  # a full carry: 9.999999995 becomes 10
            kept, exponent = 10 ** (DIGITS - 1), exponent + 1
            _check_range(said, exponent)
    sign = "-" if negative else ""
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{kept}"
    text = str(kept)
    return f"{sign}{text[: exponent + 1]}.{text[exponent + 1 :]}"


def _check_range(value: object, exponent: int) -> None:
    if exponent < LEAST_EXPONENT or exponent > MOST_EXPONENT:
        raise NumberRangeError(
            f"{value} has no nine-digit plain decimal: versions up to 0.8.0 carry 0 and 1e-13 <= |x| < 1e7; "
            "version 1.0.0 carries every finite number ('--lossless' writes it)"
        )


def js_number(value: float) -> str:
    """The text that JavaScript gives a number: shortest digits, exponents below 1e-6 and from 1e21."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**21:
        return str(value)
    value = float(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    _, digit_tuple, power = Decimal(repr(abs(value))).normalize().as_tuple()
    digits = "".join(map(str, digit_tuple))
    point = len(digits) + int(power)  # the decimal point stands after this many digits
    if 0 < point <= 21:
        plain = digits.ljust(point, "0")
        return f"{sign}{plain[:point]}.{plain[point:]}".rstrip(".") if len(plain) > point else sign + plain
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{'+' if point > 0 else '-'}{abs(point - 1)}"


def js_exponential(value: float, fraction_digits: int = 9) -> str:
    """`value.toExponential(fraction_digits)` of JavaScript; exact ties go up."""
    if not math.isfinite(value):
        return js_number(value)
    if value == 0:
        return f"0.{'0' * fraction_digits}e+0"
    exact = Decimal(value)
    exponent = exact.adjusted()
    scaled = (abs(exact).scaleb(fraction_digits - exponent)).quantize(Decimal(1), rounding=ROUND_HALF_UP)
    digits = str(int(scaled))
    if len(digits) > fraction_digits + 1:
        digits, exponent = digits[:-1], exponent + 1
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[0]}.{digits[1:]}e{'+' if exponent >= 0 else '-'}{abs(exponent)}"
