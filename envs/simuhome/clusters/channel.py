"""Channel and KeypadInput of a TV.

Invariant: strict, the reference's channel commands work on built structures alone: a list that was loaded or written
makes them fail inside (500) once their arguments have passed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from envs.simuhome.clusters import level, media, onoff
from envs.simuhome.home import View
from envs.simuhome.registry import command
from envs.simuhome.results import Failure, is_integer, need
from envs.simuhome.spec import Struct

Entry = dict[str, Any]


def _channels(view: View) -> list[Entry]:
    channels = view["ChannelList"] or []
    built = all(isinstance(entry, Struct) for entry in channels)
    need(built or not view.strict, "INTERNAL_ERROR", "the channel list is no list of structures")
    return channels


def _tune(view: View, entry: Entry) -> None:
    view["#previous"], view["CurrentChannel"] = view["CurrentChannel"], entry


def number(entry: Entry) -> str:
    """The number of a channel as people say it: `4.1`."""
    return f"{entry['MajorNumber']}.{entry['MinorNumber']}"


@command("Channel", "ChangeChannel")
def change_channel(view: View, match: Any) -> dict[str, Any]:
    """Tune to the one channel that a text matches: an identifier, a call sign, a name or a number."""
    need(isinstance(match, str) and match.strip(), "COMMAND_EXECUTION_ERROR", "match is a text")
    channels, wanted = _channels(view), match.strip().lower()
    for name in ("Identifier", "AffiliateCallSign", "CallSign", "Name", None):
        found = [one for one in channels if (number(one) if name is None else str(one.get(name)).strip().lower()) == wanted]
        if found:
            break
    need(len(found) == 1, "COMMAND_EXECUTION_ERROR", f"{len(found)} channels match {match!r}")
    _tune(view, found[0])
    return {"Status": 0, "Data": f"Changed to {found[0]['Name']} (Channel {number(found[0])})"}


@command("Channel", "ChangeChannelByNumber")
def change_channel_by_number(view: View, major_number: Any, minor_number: Any) -> dict[str, Any]:
    """Tune to a channel by its major and minor number."""
    whole = is_integer(major_number) and is_integer(minor_number) and major_number >= 0 and minor_number >= 0
    need(whole, "COMMAND_EXECUTION_ERROR", "channel numbers are integers from 0")
    wanted = (major_number, minor_number)
    found = next((one for one in _channels(view) if (one["MajorNumber"], one["MinorNumber"]) == wanted), None)
    if not found:
        raise Failure("COMMAND_EXECUTION_ERROR", f"there is no channel {major_number}.{minor_number}")
    _tune(view, found)
    return {"Status": 0, "Data": f"Changed to channel {number(found)} ({found['Name']})"}


@command("Channel", "SkipChannel")
def skip_channel(view: View, count: Any) -> dict[str, Any]:
    """Go `count` channels on in the list, around its end."""
    need(is_integer(count), "COMMAND_EXECUTION_ERROR", "count is an integer")
    channels, current = _channels(view), view["CurrentChannel"]
    need(isinstance(current, Struct) or not view.strict, "INTERNAL_ERROR", "the present channel is no structure")
    need(current in channels, "COMMAND_EXECUTION_ERROR", "the present channel is not in the list")
    entry = channels[(channels.index(current) + count) % len(channels)]
    _tune(view, entry)
    return {"Status": 0, "Data": f"Skipped to channel: {entry['Name']}"}


# The keypad: CEC key codes (HDMI-CEC, as Matter's KeypadInput takes them over)

CODES = frozenset(
    code
    for low, high in (
        (0x00, 0x0D), (0x10, 0x11), (0x1D, 0x2C), (0x2F, 0x38), (0x40, 0x57), (0x60, 0x6D), (0x71, 0x76)
    )
    for code in range(low, high + 1)
)  # fmt: skip
POWER = 0x40
DONE, UNSUPPORTED, NOT_NOW = range(3)


def _volume(view: View, direction: int) -> None:
    control = view.beside("LevelControl")
    level.step(control, "Step", StepMode=direction, StepSize=10, TransitionTime=None, OptionsMask=0, OptionsOverride=0)


def _mute(view: View) -> None:
    control = view.beside("LevelControl")
    level.move_to_level(control, "MoveToLevel", Level=1, TransitionTime=None, OptionsMask=0, OptionsOverride=0)


def _wind(view: View, name: str) -> None:
    need(view.beside("MediaPlayback")["CurrentState"] in (0, 1), "INVALID_STATE")
    media.wind(view.beside("MediaPlayback"), name, playback_speed=1.0)


def _stop(view: View) -> None:
    need(view.beside("MediaPlayback")["CurrentState"] in (0, 1), "INVALID_STATE")
    media.stop(view.beside("MediaPlayback"))


def _previous(view: View) -> None:
    channel = view.beside("Channel")
    need(channel["#previous"] is not None, "INVALID_STATE")
    _channels(channel)
    _tune(channel, channel["#previous"])


SUPPORTED: dict[int, Callable[[View], Any] | None] = {
    **dict.fromkeys((0x00, 0x01, 0x02, 0x03, 0x04, 0x4C, 0x0D, 0x09, 0x0A, *range(0x20, 0x2A), 0x2B, 0x2C)),
    POWER: lambda view: onoff.toggle(view.beside("OnOff")),
    0x41: lambda view: _volume(view, 0),
    0x42: lambda view: _volume(view, 1),
    0x43: _mute,
    0x44: lambda view: media.play(view.beside("MediaPlayback")),
    0x45: _stop,
    0x46: lambda view: media.pause(view.beside("MediaPlayback")),
    0x48: lambda view: _wind(view, "Rewind"),
    0x49: lambda view: _wind(view, "FastForward"),
    0x30: lambda view: skip_channel(view.beside("Channel"), 1),
    0x31: lambda view: skip_channel(view.beside("Channel"), -1),
    0x32: _previous,
}


@command("KeypadInput", "SendKey")
def send_key(view: View, KeyCode: Any) -> dict[str, Any]:
    """Press a key of the remote control, by its CEC code; the result says whether it did something."""
    need(is_integer(KeyCode) and KeyCode in CODES, "COMMAND_INVALID_ARGS", "KeyCode is no CEC key code")
    return {"Status": _press(view, KeyCode)}


def _press(view: View, code: int) -> int:
    if code not in SUPPORTED:
        return UNSUPPORTED
    if code != POWER and not view.powered:
        return NOT_NOW
    act = SUPPORTED[code]
    try:
        if act:
            view.home.attempt(lambda: act(view))
    except Failure:
        return NOT_NOW
    return DONE
