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
    domain, found = entity.partition(".")[0], []
    for name, form in forms.get(domain, {}).items():
        target = form.get("target")
        places = [] if target is None else target.get("entity") or [{}]
        for place in [places] if isinstance(places, Mapping) else places:
            features, kinds = place.get("supported_features"), place.get("device_class")
            if (
                domain in (place.get("domain") or [domain])
                and (not features or _has_any_feature(features, attributes))
                and (not kinds or attributes.get("device_class") in kinds)
            ):
                found.append(f"{domain}.{name}")
                break
    return sorted(found)


def applicable_fields(form: Mapping[str, Any], attributes: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The fields of a service that make sense for an entity with these attributes; those in sections among them."""
    for name, field in form.get("fields", {}).items():
        if "fields" in field:
            yield from applicable_fields(field, attributes)
            continue
        needs = field.get("filter") or {}
        features, wanted = needs.get("supported_features"), needs.get("attribute") or {}
        if features and not _has_any_feature(features, attributes):
            continue
        if all(set(values) & set(attributes.get(key) or ()) for key, values in wanted.items()):
            yield name, field


def all_service_fields(form: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All fields of a service, for whatever entity."""
    for name, field in form.get("fields", {}).items():
        if "fields" in field:
            yield from all_service_fields(field)
        else:
            yield name, field


def supported_feature_bits(attributes: Mapping[str, Any]) -> int:
    """The features of an entity as bits; none if it tells no number."""
    told = attributes.get("supported_features")
    return int(told) if isinstance(told, int) or (isinstance(told, float) and isfinite(told)) else 0


def _has_any_feature(needed: list[int], attributes: Mapping[str, Any]) -> bool:
    """Whether one of several features, or combinations of them, is supported."""
    has = supported_feature_bits(attributes)
    return any(has & bits == bits for bits in needed)
