"""Makes homes from seeds. It draws the weather, the layout, the devices and the state, in this order (HomeFlow 3.2.2).

Of people's own homes (`files`), one is drawn, and then its weather, hour and state. Rooms, names, ids, products, automations
and the entrance never change. A value is drawn if a service can write it; all others stay as in the file. Three kinds follow
the draw instead: what sensors read of the air, what the drawn values entail (a device that is off uses no power), and
counters of seconds whose condition no longer holds, which are 0.

Invariants:
- `make_home` is a pure function of seed and recipe, and gives the same bytes in every process, given the same files.
- Catalogues, lexicon, weather and people's own homes are read once per process, all files before the first home is drawn, so
  that a bad file is refused at the start.
- What a file keeps for the guards of a real home is in no drawn one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from homerl.envs.core.documents import InputError
from homerl.envs.core.model import FileNames, LateShare, Model, ShippedNames
from homerl.envs.homeenv.maker.home_names import Half, coin_names, draw_alias_names, load_lexicon, title_case, title_names
from homerl.envs.homeenv.maker.initial_state import Values, initial_state
from homerl.envs.homeenv.maker.layout_and_furniture import (
    ProductStock,
    draw_entrance,
    draw_layout,
    furnish_rooms,
    shipped_priors,
)
from homerl.envs.homeenv.maker.weather import Hemisphere, Sky, TypicalWeather
from homerl.envs.homeenv.sim.assist.entities_of_home import entity_shapes
from homerl.envs.homeenv.sim.automation import arm_rule
from homerl.envs.homeenv.sim.devices.air_physics import WeatherChange, measured_quantities
from homerl.envs.homeenv.sim.devices.device_spec import (
    NAMED,
    SHIPPED,
    Catalogue,
    Device,
    DeviceSpec,
    slug_of_words,
    unused_id,
)
from homerl.envs.homeenv.sim.devices.rooms import HOME, OUTDOORS, Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import REPORT, load_home
from homerl.envs.homeenv.sim.home_plan import Origin

Keep = Literal["nothing", "weather", "state"]
Range = tuple[int, int]
Scale = Literal["simple", "medium", "complex"]
# (devices, rooms). SMH-Bench's homes have on average 5.5 devices in 5.5 rooms, 35 in 10.5, and 135 in 31.
SCALES: dict[Scale, tuple[Range, Range]] = {
    "simple": ((2, 9), (4, 7)),
    "medium": ((26, 44), (9, 12)),
    "complex": ((120, 150), (28, 34)),
}
# Keys by which homes are made, and for which homes of files have no use.
FURNISHING = (
    "scale", "devices", "rooms", "entrance", "lexicon", "coined", "categories", "products", "did_range", "ids", "catalogue",
    "different", "titled", "aliased", "holds",
)  # fmt: skip
TRIES = 50  # layouts that are drawn before a recipe is refused because its rooms hold too few devices


class HomeRecipe(Model):
    """Which homes to make or take. Pairs are inclusive ranges."""

    files: FileNames = Field(
        (),
        exclude_if=lambda files: not files,  # digests of recipes are older than this key and the next
        description="Home files, and folders of them, from which a home is drawn in place of making one.",
    )
    keep: Keep = Field(
        "nothing",
        exclude_if=lambda keep: keep == "nothing",
        description="What stays as in `files`: `nothing` draws weather, hour and state anew for each task, "
        "`weather` only the state, `state` draws nothing.",
    )
    scale: Scale | dict[Scale, float] | None = Field(
        None, description="Size as in SMH-Bench, or weights of several, in place of `devices` and `rooms`."
    )
    devices: Range = Field((2, 6), description="Fewest and most devices of a home.")
    rooms: Range | None = Field(None, description="Fewest and most rooms; null is what the devices need.")
    entrance: bool = Field(False, description="Whether every home has a device that people speak to.")
    placed: LateShare = Field(0.0, description="Share of prompts that name the person's room.")
    language: str = Field("en", description="Language (`en`, `zh`) of names and of the user.")
    lexicon: Half = Field("train", description="Which half of the names is used.")
    coined: LateShare = Field(
        0.0, description="Share (0 to 1) of names that are coined anew for each home, in languages in Latin letters."
    )
    titled: LateShare = Field(
        0.0,
        description="Share (0 to 1) of homes with names in title case, as in Home Assistant; in half of these, many names "
        "begin with their room's.",
    )
    aliased: LateShare = Field(
        0.0, description="Share (0 to 1) of rooms and devices with aliases, which agents with Assist's tools read."
    )
    categories: tuple[str, ...] | None = Field(None, description="Categories of devices, such as `light`; null is all.")
    products: tuple[str, ...] | None = Field(None, description="Products by id (`spid`); null is all.")
    holds: tuple[str, ...] = Field(
        (),
        exclude_if=lambda holds: not holds,
        description="Products by id that each home has, if a room has place for them.",
    )
    habits: bool = Field(
        True,
        exclude_if=lambda habits: habits,
        description="Whether devices begin as people leave them, with most doors locked. `false` draws what is on, locked, "
        "open or playing evenly, so that people ask for `lock` as often as for `unlock`.",
    )
    weather: FileNames = Field((), description="EPW weather files, and folders of them; none is the bundled years.")
    forecast: int = Field(24, ge=0, description="Hours of weather to come.")
    hemisphere: Hemisphere = Field("any", description="Hemisphere; southern years begin half a year later.")
    different: int | None = Field(
        None,
        ge=1,
        exclude_if=lambda different: different is None,
        description="Number of different homes, of which each task draws one, with weather, hour and state anew; null makes "
        "a home a task.",
    )
    did_range: Range = Field((1001, 9999), description="Smallest and largest id of a device.")
    ids: Literal["number", "slug", "entity"] = Field(
        "number", description="Form of device ids: a `number`, a `slug`, or Home Assistant's `entity`."
    )
    catalogue: Annotated[FileNames, ShippedNames(frozenset(NAMED))] = Field(
        (), description="Folders of device files beside the shipped ones; `homeassistant` is shipped too."
    )

    @model_validator(mode="after")
    def _check_ranges(self) -> HomeRecipe:
        for name, least in (("devices", 0), ("rooms", 1), ("did_range", 0)):
            low, high = getattr(self, name) or (least, least)
            if not least <= low <= high:
                raise ValueError(f"{name} [{low}, {high}] must be two numbers from {least} up, smaller first")
        low, high = self.did_range
        most = max(devices[1] for devices, _ in self.size_ranges())
        if high - low + 1 < most:
            raise ValueError(f"did_range [{low}, {high}] has too few ids for {most} devices")
        return self

    @model_validator(mode="after")
    def _check_letters_of_coined_names(self) -> HomeRecipe:
        if (self.coined or self.titled) and not load_lexicon(self.language).home.isascii():
            given = "coined" if self.coined else "titled"
            raise ValueError(f"`{given}` makes words of Latin letters, which language '{self.language}' does not use")
        return self

    @model_validator(mode="after")
    def _refuse_double_settings(self) -> HomeRecipe:
        both = [name for name in ("devices", "rooms") if getattr(self, name) != type(self).model_fields[name].default]
        if self.scale is not None and both:  # a recipe that was written with its defaults must load again
            raise ValueError(f"scale says how many {both[0]} a home has: leave out one of the two")
        if isinstance(self.scale, dict) and not (min(self.scale.values(), default=0) >= 0 < sum(self.scale.values())):
            raise ValueError("scale needs a weight above 0, and none below it")
        if self.weather and self.hemisphere != "any":
            raise ValueError("hemisphere is for the bundled years: weather files have their own")
        return self

    @model_validator(mode="after")
    def _refuse_useless_settings(self) -> HomeRecipe:
        if not self.files:
            if self.keep != "nothing":
                raise ValueError("keep is for homes from `files`: name home files, or leave it out")
            return self
        for name in (*FURNISHING, *(("weather", "hemisphere", "forecast") if self.keep != "nothing" else ())):
            if getattr(self, name) == type(self).model_fields[name].default:
                continue
            if name in FURNISHING:
                raise ValueError(f"{name} is for homes that are made, and `files` names homes: leave out one of the two")
            raise ValueError(f"keep: {self.keep} leaves the weather as in `files`: leave out {name}")
        if self.keep == "state" and not self.habits:
            raise ValueError("keep: state draws no state: leave out habits")
        return self

    def size_ranges(self) -> tuple[tuple[Range, Range | None], ...]:
        """The (devices, rooms) ranges of every scale of the recipe, or those of the recipe itself."""
        if self.scale is None:
            return ((self.devices, self.rooms),)
        return tuple(SCALES[scale] for scale in ([self.scale] if isinstance(self.scale, str) else self.scale))


DEFAULT = HomeRecipe()


def make_home(seed: int, recipe: HomeRecipe = DEFAULT) -> Home:
    """The home of a seed. Raises `InputError` if the recipe cannot be met.

    For example, its rooms hold too few devices, a category is unknown, or one of its files is no home.
    """
    home = _make_unplaced_home(seed, recipe)
    rng = random.Random(f"placed {seed}")
    if recipe.placed and rng.random() < recipe.placed:
        room = rng.choice(sorted({device.room.id for device in home.plan.devices}))
        home.plan = replace(home.plan, entrance=room)
    return home


def _make_unplaced_home(seed: int, recipe: HomeRecipe) -> Home:
    """The home of a seed, in which nobody knows more of where people speak than which device they speak to."""
    rng = random.Random(f"home {seed}")  # a text, because `random` would treat -1 and 1 alike
    weather = TypicalWeather.load_years(recipe.weather, recipe.hemisphere)
    if recipe.files:
        return draw_own_home(recipe, weather, rng)
    if recipe.different is not None:
        # Training has even seeds and held-out tasks have odd ones. Keeping the parity, the two never share a home.
        number = 2 * rng.randrange(recipe.different) + seed % 2
        home = _make_unplaced_home(number, recipe.model_copy(update={"different": None}))
        return redraw_home(home, weather, recipe, rng)
    lexicon, stock = load_lexicon(recipe.language), _load_stock(recipe.catalogue, recipe.categories, recipe.products)
    catalogue = _load_catalogue(recipe.catalogue)
    sure = [catalogue[spid] for spid in _require_known("holds", recipe.holds, catalogue)]
    year, minute = weather.draw_minute(rng)
    sky = year.sky_at(minute)
    devices, rooms = recipe.size_ranges()[0]
    if isinstance(recipe.scale, dict):
        devices, rooms = rng.choices(recipe.size_ranges(), list(recipe.scale.values()))[0]
    wanted = max(rng.randint(*devices), len(sure) + 1 if sure else 0)
    for attempt in range(TRIES):
        more = attempt // 3 if sure and rooms is None else 0  # a small home has no garage, which a product may need
        if rooms is not None:
            count = rng.randint(*rooms)
        else:  # near a line through SMH-Bench's homes (see `SCALES`)
            usual = 4.4 + 0.195 * wanted
            count = min(rng.randint(math.ceil(0.85 * usual), math.floor(1.15 * usual)), max(wanted, 2))
        layout = draw_layout(count + more, lexicon, recipe.lexicon, rng)
        layout += (Room(HOME, HOME, lexicon.home),) if stock.has_roomless_products else ()
        room_for = stock.device_capacity(layout)
        if room_for >= devices[0] and all(stock.has_place_for(spec, layout) for spec in sure):
            break
    if room_for < devices[0]:
        raise InputError(
            f"a home should have {devices[0]} devices, but its rooms hold only {room_for} of these",
            where="HomeRecipe",
            remedy="allow more rooms, more categories or fewer devices",
        )
    dids = range(recipe.did_range[0], recipe.did_range[1] + 1)
    count = min(wanted, room_for)
    furniture = furnish_rooms(layout, count, stock, dids, lexicon, recipe.lexicon, rng, recipe.entrance, sure)
    if recipe.coined:
        layout, furniture = coin_names(layout, furniture, recipe.coined, lexicon.all_words, seed)
    if recipe.ids != "number":
        furniture = with_slug_ids(furniture) if recipe.ids == "slug" else with_entity_ids(furniture)
    origin, aliases = None, None
    if recipe.aliased:
        aliases = draw_alias_names(layout, furniture, recipe.aliased, lexicon, recipe.lexicon, seed)
        furniture = aliases.devices
    titled = bool(recipe.titled) and random.Random(f"titled {seed}").random() < recipe.titled
    if titled:
        layout, furniture, origin = title_names(layout, furniture, seed)
    if aliases:
        origin = aliases.add_to_origin(origin, title_case if titled else str)
    ahead = year.forecast_ahead(minute, recipe.forecast)
    return _build_home(layout, furniture, sky, rng, forecast=ahead, origin=origin, habits=recipe.habits)


def with_slug_ids(furniture: Sequence[Device]) -> tuple[Device, ...]:
    """The devices with slugs as ids: made of the names, or of room id and category where the names are not ASCII."""
    slugs = (d.slug_name if d.slug_name.isascii() else f"{d.room.id}_{d.spec.category}" for d in furniture)
    return _replace_ids(furniture, slugs)


def with_entity_ids(furniture: Sequence[Device]) -> tuple[Device, ...]:
    """The devices with the ids that Home Assistant gives to new entities. They are made of domain and name."""
    ids = []
    for device in furniture:
        name = slug_of_words(device.name.lower()) if device.name.isascii() else ""
        found = entity_shapes(device.spec)
        domains = [shape.domain for shape in found if not shape.suffix]  # there are none if only its parts are entities
        domains += [shape.domain for shape in found] + ["switch"]
        ids.append(f"{domains[0]}.{name or device.spec.category}")
    return _replace_ids(furniture, ids)


def _replace_ids(furniture: Sequence[Device], ids: Iterable[str]) -> tuple[Device, ...]:
    """The devices with these ids. An id that is there already gets a number."""
    renamed: dict[str, Device] = {}
    for device, wanted in zip(furniture, ids):
        id = unused_id(wanted, renamed)
        renamed[id] = replace(device, did=id)
    return tuple(renamed.values())


def _build_home(
    rooms: Sequence[Room],
    devices: Sequence[Device],
    sky: Sky,
    rng: random.Random,
    given: dict[str, Values] | None = None,
    forecast: Sequence[WeatherChange] = (),
    origin: Origin | None = None,
    habits: bool = True,
) -> Home:
    state = initial_state(rooms, devices, sky, rng, given, habits=habits)
    spoken_to = draw_entrance(devices, shipped_priors(), rng)
    return Home.build_home(rooms, devices, state, sky.clock, spoken_to, forecast, origin=origin)


def allowed_products(recipe: HomeRecipe) -> list[DeviceSpec]:
    """The products that homes of a recipe may have."""
    if recipe.files:
        specs = [device.spec for home in load_own_homes(recipe.files) for device in home.plan.devices]
        return list({spec.content_digest: spec for spec in specs}.values())
    return _select_products(recipe.catalogue, recipe.categories, recipe.products)


@lru_cache(maxsize=64)
def _load_stock(
    folders: tuple[str, ...], categories: tuple[str, ...] | None, products: tuple[str, ...] | None
) -> ProductStock:
    return ProductStock(_select_products(folders, categories, products), shipped_priors())


def _select_products(
    folders: tuple[str, ...], categories: tuple[str, ...] | None, products: tuple[str, ...] | None
) -> list[DeviceSpec]:
    """The products that a recipe allows. Raises `InputError` for unknown categories or products."""
    catalogue = _load_catalogue(folders)
    allowed = _require_known("categories", categories, {spec.category for spec in catalogue.values()})
    chosen = (catalogue[spid] for spid in sorted(_require_known("products", products, catalogue)))
    return [spec for spec in chosen if spec.category in allowed]


def _require_known(key: str, wanted: tuple[str, ...] | None, known: Collection[str]) -> Collection[str]:
    """The wanted names, or all known ones if `wanted` is None. Raises `InputError` if a name is unknown."""
    if unknown := [name for name in wanted or () if name not in known]:
        what = f"the catalogue has no {unknown[0]!r}"
        raise InputError(what, where=f"HomeRecipe.{key}", remedy=f"known: {', '.join(sorted(known))}")
    return known if wanted is None else wanted


@lru_cache(maxsize=64)
def _load_catalogue(folders: tuple[str, ...]) -> Catalogue:
    """The shipped catalogue and the products of the user's folders."""
    return Catalogue.load_folders(SHIPPED, *map(Path, folders)) if folders else Catalogue.load_shipped()


# People's own homes


FILES_KEY = "home.files"
FREE = ("str", "list", "dict", "hex")  # types of values that a draw without options would make meaningless


def draw_own_home(recipe: HomeRecipe, weather: TypicalWeather, rng: random.Random) -> Home:
    """One of the homes of the recipe's `files`, with a state, and weather to come, that are drawn as `keep` says.

    Raises `InputError` if any of the files cannot be used.
    """
    home = rng.choice(load_own_homes(recipe.files))
    if recipe.keep == "state":
        return home.fork()
    if recipe.keep == "weather":
        air = home.state_of(OUTDOORS)
        when = datetime.fromtimestamp(home.clock, UTC).replace(tzinfo=None)
        sky = Sky(when, air["temperature"], air["humidity"], air["brightness"], 0.0)
        return _redraw_state(home, sky, home.plan.forecast, rng, recipe.habits)
    return redraw_home(home, weather, recipe, rng)


def redraw_home(home: Home, weather: TypicalWeather, recipe: HomeRecipe, rng: random.Random) -> Home:
    """The home at another time: weather, hour and state are drawn, and the weather to come."""
    year, minute = weather.draw_minute(rng)
    return _redraw_state(home, year.sky_at(minute), year.forecast_ahead(minute, recipe.forecast), rng, recipe.habits)


def _redraw_state(home: Home, sky: Sky, forecast: Sequence[WeatherChange], rng: random.Random, habits: bool) -> Home:
    plan = home.plan
    kept: dict[str, Values] = {}  # by did: the values that stay as in the file, unless drawn ones contradict them
    for device in plan.devices:
        paths = drawn_paths(device.spec)
        kept[device.did] = {path: value for path, value in home.state_of(device.did).items() if path not in paths}
    state = initial_state(plan.rooms, plan.devices, sky, rng, kept=kept, habits=habits)
    drawn = Home.build_home(plan.rooms, plan.devices, state, sky.clock, plan.entrance, forecast, origin=plan.origin)
    for counter in drawn.plan.time_wiring.counters:
        if not counter.is_counting(drawn.values):
            drawn.write_slot(counter.slot, counter.attribute.check_value(0))
    shift = sky.clock - home.clock
    for rule in home.rules:
        at = rule.definition.at
        moved = replace(rule, definition=replace(rule.definition, at=None if at is None else at + shift))
        drawn.rules += (arm_rule(moved.with_progress(fired=None), drawn),)
    return drawn


def drawn_paths(spec: DeviceSpec) -> frozenset[str]:
    """The paths of the values that are drawn: those that services write, but for free text, and readings of the air."""
    paths = list(spec.attribute_index)
    written = {offset for service in spec.service_index.values() for offset, *_ in service.writes}
    kinds = [attribute for _, attribute in spec.attribute_index.values()]
    free = {path for path, kind in zip(paths, kinds) if kind.type in FREE and kind.options is None}
    return frozenset({paths[offset] for offset in written} - free | {path for path, _ in measured_quantities(spec)})


@lru_cache(maxsize=16)
def load_own_homes(files: tuple[str, ...]) -> tuple[Home, ...]:
    """The homes of all files and folders, in this order. Raises `InputError` if one of them cannot be used."""
    return tuple(_load_usable_home(path) for name in files for path in home_files(name))


def home_files(name: str) -> list[Path]:
    """The home files of a folder, sorted by name; for any other path, the path itself. A report of an import is none."""
    if not Path(name).is_dir():
        return [Path(name)]
    if found := sorted(path for path in Path(name).glob("*.json") if not path.name.endswith(REPORT)):
        return found
    raise InputError(
        f"{FILES_KEY}: the folder holds no home file (*.json)", name, "make one: homerl make-home --out home.json"
    )


def _load_usable_home(path: Path) -> Home:
    """The home of a file, if people can speak of all its rooms and devices."""
    try:
        home = load_home(path)
    except InputError as error:
        remedy = error.remedy if path.exists() else f"{error.remedy}; or make a home: homerl make-home --out {path}"
        raise InputError(f"{FILES_KEY}: {error.what}", error.where, remedy) from None
    things = [(f"rooms.{i}.name", room.id, room.name) for i, room in enumerate(home.plan.rooms)]
    things += [(f"devices.{i}.name", device.did, device.name) for i, device in enumerate(home.plan.devices)]
    for key, id, name in things:
        if not any(map(str.isalnum, name)):
            what = f"{FILES_KEY}: {key}: '{id}' has no name, so nobody can speak of it"
            raise InputError(what, str(path), "give it the name that people call it by")
    if not any(device.spec.service_index for device in home.plan.devices):
        what = f"{FILES_KEY}: devices: none has a service, so there is nothing to ask for"
        raise InputError(what, str(path), "name a home with devices")
    # Everybody may read a task, so what a file keeps for the guards of a real home stays out of it.
    home.plan = replace(home.plan, origin=home.plan.origin and home.plan.origin.without_guarded_parts)
    return home


class HomeSampler:
    """Makes homes, under the name that HomeFlow A.3 uses."""

    @staticmethod
    def sample(seed: int, **recipe: Any) -> Home:
        """The home of a seed. The keyword arguments are those of `HomeRecipe`."""
        return make_home(seed, HomeRecipe(**recipe))

    @staticmethod
    def sample_test() -> Home:
        """A small fixed home, in which device 1001 is a light that is on."""
        living = Room("living_room", "living_room", "living room")
        bedroom = Room("bedroom", "bedroom", "master bedroom")
        bathroom = Room("bathroom", "bathroom", "ensuite bathroom", parent="bedroom")
        catalogue = Catalogue.load_shipped()
        devices = (
            Device("1001", "ceiling light", living, catalogue["100001"]),
            Device("1002", "air conditioner", living, catalogue["100301"]),
            Device("1003", "bedside lamp", bedroom, catalogue["100002"]),
            Device("1004", "curtain", bedroom, catalogue["100501"]),
            Device("1005", "climate sensor", bathroom, catalogue["101701"]),
        )
        sky = Sky(datetime(2025, 6, 1, 20, 30), 27.5, 60.0, 350.0, 2.0)
        given: dict[str, Values] = {
            "1001": {"state": "on", "brightness": 40, "hs_color": (30.0, 20.0)},
            "1002": {"state": "on", "ac_mode": "cool", "target_temperature": 24},
            "1003": {"state": "off", "brightness": 50, "color_temperature": 3000},
            "1004": {"position": 100},
        }
        return _build_home((living, bedroom, bathroom), devices, sky, random.Random(0), given)
