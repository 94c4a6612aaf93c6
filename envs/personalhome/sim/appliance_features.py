"""What the methods of appliances are good for, and for whom (`features.yaml`).

The paper asks a language model which features are relevant (PersonalHomeBench App. I.2). Here a feature says by which
needs it is wanted, and its relevance follows.

Invariants: every method of the catalogue has one feature; what a feature is wanted for is a key of `vocabulary.yaml`, or
`pets`, `children` or `elders`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from homerl.envs.core.documents import Document, InputError, read_yaml, validate_document
from homerl.envs.core.model import Model
from homerl.envs.personalhome.sim.appliance_catalogue import appliance_kinds
from homerl.envs.personalhome.sim.vocabulary import load_vocabulary

FILE = Path(__file__).resolve().parent / "features.yaml"
GROUPS = ("situations", "tastes", "traits", "activities", "hobbies")  # of keys that make a feature relevant
COMPANY = ("pets", "children", "elders")  # who else does
Attention = Literal["none", "visual", "audio"]


class FeatureTitle(Model):
    """What people call a feature, by language."""

    en: str
    zh: str


class FeatureRecord(Model):
    """A feature as `features.yaml` describes it."""

    title: FeatureTitle
    wanted_when: tuple[str, ...] = Field(min_length=1)
    attention: Attention

    @field_validator("wanted_when")
    @classmethod
    def _known(cls, wanted: tuple[str, ...]) -> tuple[str, ...]:
        for key in wanted:
            if key not in feature_need_keys():
                raise ValueError(f"'{key}' is no key of {', '.join(GROUPS)}, nor {', '.join(COMPANY)}")
        if len(set(wanted)) < len(wanted):
            raise ValueError(f"wanted_when {list(wanted)}: a key is given twice")
        return wanted


class Feature(FeatureRecord):
    """A method of a kind of appliance, as people know it. `attention` is the sense of people that it takes."""

    kind: str
    method: str

    @property
    def name(self) -> str:
        """The key of the feature: `kind.method`."""
        return f"{self.kind}.{self.method}"


@lru_cache(maxsize=1)
def feature_need_keys() -> frozenset[str]:
    """All keys that a feature can be wanted for."""
    return frozenset(key for group in GROUPS for key in load_vocabulary().group_keys(group)) | frozenset(COMPANY)


@lru_cache(maxsize=1)
def load_features() -> Mapping[str, Feature]:
    """All features by `kind.method`, in the order of the catalogue. Raises `InputError` if the file is wrong."""
    return read_features(read_yaml(FILE))


def read_features(document: Document) -> Mapping[str, Feature]:
    """`features.yaml` as data. Raises `InputError` unless it describes exactly the methods of the catalogue."""
    records = validate_document(dict[str, FeatureRecord], document)
    methods = [(kind, service.name) for kind, spec in appliance_kinds().items() for service in spec.services]
    known = {f"{kind}.{method}": (kind, method) for kind, method in methods}
    for key in [*sorted(records.keys() - known.keys()), *sorted(known.keys() - records.keys())]:
        what = f"'{key}' is {'no method of the catalogue' if key in records else 'not described'}"
        raise InputError(what, where=document.locate_key((key,)), remedy="describe exactly the methods of the catalogue")
    return {key: Feature(kind=kind, method=method, **dict(records[key])) for key, (kind, method) in known.items()}


def rank_features(needs: Mapping[str, float]) -> list[tuple[Feature, float]]:
    """All features with their relevance for a household, the most relevant first, equal ones in the order of the catalogue.

    `needs` are the weights of what the household needs, by key. The relevance of a feature is the sum of those of its keys.
    """
    rated = [(one, sum(needs.get(key, 0.0) for key in one.wanted_when)) for one in load_features().values()]
    return sorted(rated, key=lambda pair: -pair[1])
