"""What scenes are made of: actions and things (`stage.yaml`), event scripts (`scripts/`), and their words (`words/`).

A script says who does what with what, where and in which order. Its roles are filled by a household:
- `zones`: role -> types of rooms, in order of preference; `@stove` is the room of the appliance in the role `stove`.
- `members`, `pets`: role -> kinds, in order of preference. A kind of person is one of `PERSONS` or a trait.
- `appliances`: role -> kinds, and the zone where it must stand, unless a zone is named after it.
- `landmarks`: kind, which is the role as well -> zone. `objects`: role -> kinds, and where it is at first.
- `starts`: person or pet -> zone and posture at first. All others are out of view.
A role whose last kind is `none` may stay empty; the beats that name it are left out.

Invariants: a script names only actions, sounds, roles and kinds that exist; every key has words in every language.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import get_args

from pydantic import Field

from homerl.envs.core.documents import InputError, read_yaml, validate_document
from homerl.envs.core.languages import LanguagePart
from homerl.envs.core.model import Model
from homerl.envs.personalhome.sim.scene.transcript import Domain

FOLDER = Path(__file__).parent
WORDS = LanguagePart(FOLDER / "words", "personalhome_scenes.yaml")
DOMAINS: dict[Domain, int] = {"safety": 30, "health": 38, "daily": 32}  # videos (PersonalHomeBench Table 6)
PERSONS = ("adult", "elder", "minor", "child", "anyone", "unknown")
NONE = "none"


class SceneAction(Model):
    """Something that happens: the least and most seconds, the roles it needs, and the (role, attribute, value) it sets."""

    takes: tuple[float, float]
    needs: tuple[str, ...]
    sets: tuple[tuple[str, str, str], ...] = ()


class ScriptBeat(Model):
    """One thing that happens in a script: an action, a sound, or both. Fields besides flags name roles.

    `key` marks what the scene is about. `meanwhile` lets it begin with the beat before. `chance` is the probability that it
    happens; one that `follows` needs the beat before. `from_outside` lets somebody act who is not in view.
    """

    do: str | None = None
    who: str | None = None
    what: str | None = None
    at: str | None = None
    zone: str | None = None
    sound: str | None = None
    key: bool = False
    meanwhile: bool = False
    follows: bool = False
    from_outside: bool = False
    chance: float = Field(default=1.0, gt=0, le=1)

    def named_roles(self) -> tuple[str, ...]:
        """The roles that it names."""
        return tuple(role for role in (self.who, self.what, self.at, self.zone) if role)


class PlacedThing(Model):
    """The kinds of an appliance and the zone where it must stand, or of an object and where it is at first."""

    kinds: tuple[str, ...] = Field(alias="is", min_length=1)
    zone: str | None = Field(default=None, alias="in")
    at: str | None = None


class SceneScript(Model):
    """An event script. The docstring of the module explains its roles."""

    situation: str
    light: str | None = None
    zones: dict[str, tuple[str, ...]]
    members: dict[str, tuple[str, ...]]
    pets: dict[str, tuple[str, ...]] = {}
    appliances: dict[str, PlacedThing] = {}
    landmarks: dict[str, str]
    objects: dict[str, PlacedThing]
    starts: dict[str, tuple[str, str]] = {}
    beats: tuple[ScriptBeat, ...] = Field(min_length=1)


class SceneStage(Model):
    """The keys of scenes. `stage.yaml` says what each group is."""

    actions: dict[str, SceneAction]
    before: dict[str, str]
    objects: dict[str, str]
    landmarks: tuple[str, ...]
    surfaces: tuple[str, ...]
    extras: dict[str, tuple[str, ...]]
    loose: tuple[str, ...]
    sounds: tuple[str, ...]
    far: tuple[str, ...]
    hair: tuple[str, ...]
    tops: tuple[str, ...]
    bottoms: tuple[str, ...]
    feet: tuple[str, ...]
    colours: tuple[str, ...]
    coats: dict[str, tuple[str, ...]]
    finishes: tuple[str, ...]
    positions: tuple[str, ...]
    light: dict[str, tuple[str, ...]]
    walking: tuple[str, ...]
    distractors: tuple[tuple[ScriptBeat, ...], ...]


class CaptionWords(Model):
    """The words of a language for the keys of `stage.yaml`, by group, and frames with fields in braces."""

    frames: dict[str, str]
    actions: dict[str, str]
    states: dict[str, str]
    objects: dict[str, str]
    landmarks: dict[str, str]
    sounds: dict[str, str]
    hair: dict[str, str]
    tops: dict[str, str]
    bottoms: dict[str, str]
    feet: dict[str, str]
    colours: dict[str, str]
    animals: dict[str, str]
    categories: dict[str, str]
    positions: dict[str, str]
    lights: dict[str, str]
    sources: dict[str, str]
    camera: dict[str, str]
    inferred: dict[str, str]


@lru_cache
def load_stage() -> SceneStage:
    """The keys of scenes. Raises `InputError` if the file is wrong."""
    return validate_document(SceneStage, read_yaml(FOLDER / "stage.yaml"))


@lru_cache
def load_caption_words(language: str) -> CaptionWords:
    """The words of a language. Raises `InputError` for a language without words."""
    return validate_document(CaptionWords, read_yaml(WORDS.find_path(language)))


@lru_cache
def load_scene_scripts() -> Mapping[Domain, tuple[SceneScript, ...]]:
    """All scripts by domain. Raises `InputError` if one is wrong."""
    found: dict[Domain, tuple[SceneScript, ...]] = {}
    for domain in get_args(Domain):
        document = read_yaml(FOLDER / "scripts" / f"{domain}.yaml")
        found[domain] = validate_document(tuple[SceneScript, ...], document)
        for index, script in enumerate(found[domain]):
            for problem in find_script_problems(script):
                raise InputError(problem, document.locate_key((index,)), "correct the script, or add the key to stage.yaml")
    return found


def find_script_problems(script: SceneScript) -> Iterator[str]:
    """What a script names and nobody knows, and what its beats lack."""
    keys = load_stage()
    roles = {*script.zones, *script.members, *script.pets, *script.appliances, *script.landmarks, *script.objects}
    placed = [*script.appliances.values(), *script.objects.values()]
    named = [role for beat in script.beats for role in beat.named_roles()] + [*script.landmarks.values(), *script.starts]
    named += [role for one in placed for role in (one.zone, one.at) if role]
    yield from (f"there is no role '{role}'" for role in named if role not in roles)
    yield from (f"there is no landmark '{kind}'" for kind in script.landmarks if kind not in keys.landmarks)
    kinds = [kind for one in script.objects.values() for kind in one.kinds]
    yield from (f"there is no object '{kind}'" for kind in kinds if kind not in keys.objects)
    for beat in script.beats:
        action = keys.actions.get(beat.do or "")
        if (beat.do and action is None) or not (beat.do or (beat.sound and beat.zone)):
            yield f"'{beat.do}' is no action, and without one a beat needs a sound and a zone"
        if beat.sound and beat.sound not in keys.sounds:
            yield f"there is no sound '{beat.sound}'"
        yield from (f"'{beat.do}' needs `{field}`" for field in (action.needs if action else ()) if not getattr(beat, field))


def domain_counts(count: int) -> dict[Domain, int]:
    """How many of `count` transcripts each domain gets, in the paper's shares (of 100: 30, 38, 32; Table 6).

    What rounding leaves goes to the largest remainders.
    """
    whole = sum(DOMAINS.values())
    shares = {domain: count * share // whole for domain, share in DOMAINS.items()}
    rest = sorted(DOMAINS, key=lambda domain: -(count * DOMAINS[domain] % whole))
    return {domain: share + (domain in rest[: count - sum(shares.values())]) for domain, share in shares.items()}


def situation_domain(situation: str) -> Domain:
    """The domain of a situation. Raises `KeyError` if no script has it."""
    return {script.situation: domain for domain, known in load_scene_scripts().items() for script in known}[situation]
