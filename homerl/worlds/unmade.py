"""The error of an author that made no blueprint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from homerl.envs.core.documents import InputError


def no_blueprint_error(what: str, dropped: Counter[str], remedies: Mapping[str, str]) -> InputError:
    """The error of an author that dropped every candidate: its counted reasons, and the remedy for the most frequent.

    `remedies` holds a remedy by the beginning of the reasons that it is for.
    """
    reasons = ", ".join(f"{reason} ({count:,})" for reason, count in dropped.most_common())
    (most, _), *_ = dropped.most_common(1)
    remedy = next(remedy for reason, remedy in remedies.items() if most.startswith(reason))
    return InputError(f"{what}: {reasons}", remedy=remedy)
