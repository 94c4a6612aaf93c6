"""The forms of Home Assistant's services: their fields with selectors, and which entities support them.

`services.json` holds the forms of one version for homes that do not list theirs. `scripts/ha/forms.py` makes it from the
records.

Invariant: a service is supported as Home Assistant's `get_services_for_target` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import read_json

Forms = Mapping[str, Mapping[str, Mapping[str, Any]]]  # domain -> service -> form


@cache
def shipped_service_forms() -> dict[str, Any]:
    """The forms of the version that homerl knows."""
    forms: dict[str, Any] = read_json(Path(__file__).with_name("services.json")).data["services"]
    return forms


def supported_services(forms: Forms, entity: str, attributes: Mapping[str, Any]) -> list[str]:
    """The services of its own domain that an entity supports, as `light.turn_on`."""
    domain = entity.partition(".")[0]
    return sorted(
        f"{domain}.{name}"
        for name, form in forms.get(domain, {}).items()
        if _targets(form.get("target"), domain, attributes)
    )


def applicable_fields(form: Mapping[str, Any], attributes: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The fields of a service that make sense for an entity with these attributes; those in sections among them."""
    for name, field in form.get("fields", {}).items():
        if "fields" in field:
            yield from applicable_fields(field, attributes)
        elif _fits(field.get("filter") or {}, attributes):
            yield name, field


def all_service_fields(form: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All fields of a service, for whatever entity."""
    for name, field in form.get("fields", {}).items():
        if "fields" in field:
            yield from all_service_fields(field)
        else:
            yield name, field


def _targets(target: Mapping[str, Any] | None, domain: str, attributes: Mapping[str, Any]) -> bool:
    if target is None:
        return False
    places = target.get("entity") or [{}]
    return any(
        domain in (place.get("domain") or [domain])
        and (not (needed := place.get("supported_features")) or _any_feature(needed, attributes))
        and (not (kinds := place.get("device_class")) or attributes.get("device_class") in kinds)
        for place in ([places] if isinstance(places, Mapping) else places)
    )


def _fits(needs: Mapping[str, Any], attributes: Mapping[str, Any]) -> bool:
    if (features := needs.get("supported_features")) and not _any_feature(features, attributes):
        return False
    return all(set(wanted) & set(attributes.get(name) or ()) for name, wanted in (needs.get("attribute") or {}).items())


def supported_feature_bits(attributes: Mapping[str, Any]) -> int:
    """The features of an entity as bits; none if it tells no number."""
    told = attributes.get("supported_features")
    return int(told) if isinstance(told, int) or (isinstance(told, float) and isfinite(told)) else 0


def _any_feature(needed: list[int], attributes: Mapping[str, Any]) -> bool:
    """Whether one of several features, or combinations of them, is supported."""
    has = supported_feature_bits(attributes)
    return any(has & bits == bits for bits in needed)
