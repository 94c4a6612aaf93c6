"""MediaPlayback of a TV. Results are bare strings."""

from __future__ import annotations

from typing import Any

from envs.simuhome.home import View
from envs.simuhome.registry import command
from envs.simuhome.results import need

PLAYING, PAUSED, NOT_PLAYING = range(3)


def _refuse(view: View, refused: bool, name: str) -> None:
    need(not refused, "COMMAND_INVALID_ARGS", f"{name} is not possible in state {int(view['CurrentState'])}")


@command("MediaPlayback", "Play")
def play(view: View) -> str:
    """Play what is paused or stopped."""
    _refuse(view, view["CurrentState"] == PLAYING, "Play")
    view.enumerate("CurrentState", PLAYING)
    return "Playback started"


@command("MediaPlayback", "Pause")
def pause(view: View) -> str:
    """Pause what plays."""
    _refuse(view, view["CurrentState"] != PLAYING, "Pause")
    view.enumerate("CurrentState", PAUSED)
    return "Playback paused"


@command("MediaPlayback", "Stop")
def stop(view: View) -> str:
    """Stop what plays or is paused."""
    _refuse(view, view["CurrentState"] == NOT_PLAYING, "Stop")
    view.enumerate("CurrentState", NOT_PLAYING)
    return "Playback stopped"


@command("MediaPlayback", "StartOver")
def start_over(view: View) -> str:
    """Play from the beginning."""
    view.enumerate("CurrentState", PLAYING)
    return "Playback restarted from beginning"


@command("MediaPlayback", "Previous")
def previous(view: View) -> str:
    """Answer that the content before is shown; no state knows of it."""
    return "Moved to previous content"


@command("MediaPlayback", "Next")
def next_content(view: View) -> str:
    """Answer that the next content is shown; no state knows of it."""
    return "Moved to next content"


@command("MediaPlayback", "Rewind", "FastForward")
def wind(view: View, name: str, playback_speed: Any) -> str:
    """Wind back or forward, which plays."""
    _refuse(view, view["CurrentState"] == NOT_PLAYING, name)
    view.enumerate("CurrentState", PLAYING)
    return f"{'Rewinding' if name == 'Rewind' else 'Fast forwarding'} at {playback_speed}x speed"
