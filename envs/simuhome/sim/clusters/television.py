"""The clusters MediaPlayback, Channel and KeypadInput of a TV. The data of a MediaPlayback command's result is a string.

Invariant: in strict mode the channel commands only work on the catalogue's own channel structures, as in the released
program. If the list was loaded or written, they fail with an internal error (500) once their arguments have passed the
checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from homerl.envs.simuhome.sim.cluster_registry import register_command
from homerl.envs.simuhome.sim.clusters import power_and_level
from homerl.envs.simuhome.sim.device_catalogue import Struct
from homerl.envs.simuhome.sim.home import ClusterView, OperationError, is_integer, refuse_unless

PLAYING, PAUSED, NOT_PLAYING = range(3)  # Matter's PlaybackStateEnum; a file may also load 3, buffering


@register_command("MediaPlayback", "Play", "Pause", "Stop")
def change_playback(view: ClusterView, name: str) -> str:
    """Play, which is refused while playing; pause, unless playing; or stop, if neither playing nor paused."""
    now = view["CurrentState"]
    allowed, state, done = {
        "Play": (now != PLAYING, PLAYING, "started"),
        "Pause": (now == PLAYING, PAUSED, "paused"),
        "Stop": (now != NOT_PLAYING, NOT_PLAYING, "stopped"),
    }[name]
    _enter_playback(view, name, allowed, state)
    return f"Playback {done}"


def _enter_playback(view: ClusterView, name: str, allowed: bool, state: int) -> None:
    """Enter a playback state. Raises `OperationError` with the command's name unless it is allowed now."""
    refuse_unless(allowed, "COMMAND_INVALID_ARGS", f"{name} is not possible in state {int(view['CurrentState'])}")
    view.set_enum("CurrentState", state)


@register_command("MediaPlayback", "StartOver")
def restart_media(view: ClusterView) -> str:
    """Play from the beginning."""
    view.set_enum("CurrentState", PLAYING)
    return "Playback restarted from beginning"


@register_command("MediaPlayback", "Previous", "Next")
def skip_content(view: ClusterView, name: str) -> str:
    """Answer that the previous or the next content is shown. The state does not change."""
    return f"Moved to {name.lower()} content"


@register_command("MediaPlayback", "Rewind", "FastForward")
def wind_media(view: ClusterView, name: str, playback_speed: Any) -> str:
    """Wind back or forward, which sets the state to playing. Refused if neither playing nor paused."""
    _enter_playback(view, name, view["CurrentState"] != NOT_PLAYING, PLAYING)
    return f"{'Rewinding' if name == 'Rewind' else 'Fast forwarding'} at {playback_speed}x speed"


def _channel_list(view: ClusterView) -> list[dict[str, Any]]:
    channels = view["ChannelList"] or []
    built = all(isinstance(entry, Struct) for entry in channels)
    refuse_unless(built or not view.is_strict, "INTERNAL_ERROR", "the channel list is no list of structures")
    return channels


def _tune_to(view: ClusterView, entry: dict[str, Any]) -> None:
    view["#previous"], view["CurrentChannel"] = view["CurrentChannel"], entry


def _channel_number(entry: dict[str, Any]) -> str:
    """The number of a channel as people say it, such as `4.1`."""
    return f"{entry['MajorNumber']}.{entry['MinorNumber']}"


@register_command("Channel", "ChangeChannel")
def change_channel(view: ClusterView, match: Any) -> dict[str, Any]:
    """Tune to the one channel that `match` names: an identifier, a call sign, a name or a number."""
    refuse_unless(isinstance(match, str) and match.strip(), "COMMAND_EXECUTION_ERROR", "match is a text")
    channels, wanted = _channel_list(view), match.strip().lower()
    for key in ("Identifier", "AffiliateCallSign", "CallSign", "Name"):
        if matching := [channel for channel in channels if str(channel.get(key)).strip().lower() == wanted]:
            break
    else:
        matching = [channel for channel in channels if _channel_number(channel) == wanted]
    refuse_unless(len(matching) == 1, "COMMAND_EXECUTION_ERROR", f"{len(matching)} channels match {match!r}")
    _tune_to(view, matching[0])
    return {"Status": 0, "Data": f"Changed to {matching[0]['Name']} (Channel {_channel_number(matching[0])})"}


@register_command("Channel", "ChangeChannelByNumber")
def change_channel_by_number(view: ClusterView, major_number: Any, minor_number: Any) -> Any:
    """Tune to the channel with these major and minor numbers."""
    whole = is_integer(major_number) and is_integer(minor_number) and major_number >= 0 and minor_number >= 0
    refuse_unless(whole, "COMMAND_EXECUTION_ERROR", "channel numbers are integers from 0")
    wanted = (major_number, minor_number)
    matching = [one for one in _channel_list(view) if (one["MajorNumber"], one["MinorNumber"]) == wanted]
    refuse_unless(matching, "COMMAND_EXECUTION_ERROR", f"there is no channel {major_number}.{minor_number}")
    _tune_to(view, matching[0])
    return _answer_data(view, f"Changed to channel {major_number}.{minor_number} ({matching[0]['Name']})")


@register_command("Channel", "SkipChannel")
def skip_channel(view: ClusterView, count: Any) -> Any:
    """Go `count` channels forward in the list. After the last channel comes the first; from none one goes to the first."""
    refuse_unless(is_integer(count), "COMMAND_EXECUTION_ERROR", "count is an integer")
    channels, current = _channel_list(view), view["CurrentChannel"]
    if current is None and channels:
        view["CurrentChannel"] = channels[0]
        return _answer_data(view, f"Set to first channel: {channels[0]['Name']}")
    refuse_unless(isinstance(current, Struct) or not view.is_strict, "INTERNAL_ERROR", "the present channel is no structure")
    refuse_unless(current in channels, "COMMAND_EXECUTION_ERROR", "the present channel is not in the list")
    entry = channels[(channels.index(current) + count) % len(channels)]
    _tune_to(view, entry)
    return _answer_data(view, f"Skipped to channel: {entry['Name']}")


def _answer_data(view: ClusterView, text: str) -> Any:
    """The data of a result: in strict mode the text alone, where `ChangeChannel` gives a status too."""
    return text if view.is_strict else {"Status": 0, "Data": text}


# The keypad. Key codes are those of HDMI-CEC, which Matter's KeypadInput uses.

CEC_CODES = frozenset(
    code
    for low, high in ((0x00, 0x0D), (0x10, 0x11), (0x1D, 0x2C), (0x2F, 0x38), (0x40, 0x57), (0x60, 0x6D), (0x71, 0x76))
    for code in range(low, high + 1)
)
POWER = 0x40  # the only key that works while the TV is off
DONE, UNSUPPORTED, INVALID_NOW = range(3)  # KeypadInput's StatusEnum


def _change_volume(view: ClusterView, direction: int) -> None:
    view, step = view.sibling_view("LevelControl"), {"StepMode": direction, "StepSize": 10}
    power_and_level.step_level(view, "Step", TransitionTime=None, OptionsMask=0, OptionsOverride=0, **step)


def _mute_volume(view: ClusterView) -> None:
    view = view.sibling_view("LevelControl")
    power_and_level.move_to_level(view, "MoveToLevel", 1, TransitionTime=None, OptionsMask=0, OptionsOverride=0)


def _wind_or_stop(view: ClusterView, name: str) -> None:
    media = view.sibling_view("MediaPlayback")
    refuse_unless(media["CurrentState"] in (0, 1), "INVALID_STATE")
    if name == "Stop":
        change_playback(media, name)
    else:
        wind_media(media, name, playback_speed=1.0)


def _tune_to_previous(view: ClusterView) -> None:
    channel = view.sibling_view("Channel")
    known = channel["#previous"] is not None and channel["CurrentChannel"] is not None
    refuse_unless(known, "INVALID_STATE")
    _tune_to(channel, channel["#previous"])


# What each supported key does. Keys of menus and digits (None) are accepted and change nothing.
SUPPORTED: dict[int, Callable[[ClusterView], Any] | None] = {
    **dict.fromkeys((0x00, 0x01, 0x02, 0x03, 0x04, 0x4C, 0x0D, 0x09, 0x0A, *range(0x20, 0x2A), 0x2B, 0x2C)),
    POWER: lambda view: power_and_level.toggle_power(view.sibling_view("OnOff")),
    0x41: lambda view: _change_volume(view, 0),
    0x42: lambda view: _change_volume(view, 1),
    0x43: _mute_volume,
    0x44: lambda view: change_playback(view.sibling_view("MediaPlayback"), "Play"),
    0x45: lambda view: _wind_or_stop(view, "Stop"),
    0x46: lambda view: change_playback(view.sibling_view("MediaPlayback"), "Pause"),
    0x48: lambda view: _wind_or_stop(view, "Rewind"),
    0x49: lambda view: _wind_or_stop(view, "FastForward"),
    0x30: lambda view: skip_channel(view.sibling_view("Channel"), 1),
    0x31: lambda view: skip_channel(view.sibling_view("Channel"), -1),
    0x32: _tune_to_previous,
}


@register_command("KeypadInput", "SendKey")
def send_key(view: ClusterView, KeyCode: Any) -> dict[str, Any]:
    """Press a key of the remote control, by its CEC code.

    The result's `Status` is 0 (done), 1 (key not supported) or 2 (not possible now).
    """
    refuse_unless(is_integer(KeyCode) and KeyCode in CEC_CODES, "COMMAND_INVALID_ARGS", "KeyCode is no CEC key code")
    if KeyCode not in SUPPORTED:
        return {"Status": UNSUPPORTED}
    if KeyCode != POWER and not view.is_on:
        return {"Status": INVALID_NOW}
    try:
        if act := SUPPORTED[KeyCode]:
            view.home.run_or_undo(act, view)
    except OperationError:
        return {"Status": INVALID_NOW}
    return {"Status": DONE}
