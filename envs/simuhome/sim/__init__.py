"""SimuHome: homes of Matter devices in virtual time, after the paper SimuHome (ICLR 2026).

A home runs in one of two modes. Strict mode reproduces the paper's released program with its known faults. Mended mode
(`strict=False`) corrects them. "The released program" means the paper's own simulator wherever this package names it.

What differs, in strict mode and in mended mode:

- refusals: the HTTP class and a URL; mended: type and reason
- temperature and PM10: effects keep the rate at the last change of a device; mended: effects follow the air in every pass
- dead band of a thermostat: `SetpointRaiseLower` does not check it; mended: always checked
- `Start` while running or paused: resets the programme; mended: resets it only if it starts
- `Toggle` of an appliance: leaves the programme running; mended: behaves as On and Off
- blinds: arrive in one pass; mended: 3 s for the full way
- loaded washers and dryers: stay in their phase; mended: go through their phases
- the loaded air: is the baseline, so lights that are on count twice; mended: the baseline is without the lights; or give
  `baseline`
- channels of a loaded TV: cause an internal error (500); mended: work
- what `ChangeChannelByNumber`, `SkipChannel` return: a text; mended: status and text, as `ChangeChannel`
- a removed device: its last effect stays: light until another light changes, the rest for ever; mended: leaves with it
- `Stop` of a dimmer: couples power if the last move or the last transition was coupled, even if it has ended; mended:
  couples if what began last was coupled
- negative `StepSize`, negative `Rate`: go beyond the bound on the other side, without end; mended: stop at both bounds
- fractions of `Level`, `StepSize`, `TransitionTime`: are taken, and cut off where the next command begins; mended: refused
- workflows due in one live tick: ten run, the others in the next ticks; mended: all run
- an argument called `self`, `endpoint_id`, `cluster_id` or `command_id`: 500; in a workflow's step, as a malformed step;
  mended: refused
- a transition time that is a text: 500 when the light is switched; in a workflow's step, as a malformed step; mended: the
  same, but the step fails
- `endpoint_id` of a workflow's step: 1.0 is 1, and "1" is none; mended: is read as in a call
- `Identify` with other ticks than 0.1 s: counts a tick as 0.1 s; mended: counts seconds
- effects on temperature and PM10, if the length of a tick changes: stay as they are until a device changes; mended: follow
- `Start` of a dryer that `Toggle` switched on: its first phase is null; mended: it has its phases
- `SetpointRaiseLower` of a fresh heat pump: refused at every endpoint: it adjusts its power itself; mended: works
- commands for Thermostat and DeviceEnergyManagement of a heat pump that was loaded without current (`PowerSource.Status` 0
  or 3): run: a number from a file is no member of the enumeration; mended: refused, as by a device that is off
- `Off` of an appliance that is on, and was loaded in state 0: its `OperationalState`, so far a number in a structure,
  becomes the member `STOPPED`; mended: it is that member from the start
- `SpinSpeedCurrent` of a washer that is off: takes null; mended: refused
- a malformed workflow step: stays `running` and breaks fast-forward; mended: becomes `failed`, with the reason
- attributes that do not exist: read as null; mended: refused
- modes, levels, positions: are mostly not checked when written; mended: are checked
- types in a structure: depend on an attribute's history; mended: stable
- asserts on a channel's number: are never true; mended: work
- required actions: a refused call counts (in `evaluate_episode`); mended: it does not count
- QT4 before its time: counts, if it still holds then: who does at once what was to be done in ten minutes passes QT4-1 and
  QT4-2; mended: does not count, unless the home or an earlier goal has brought it about

In some small things both modes do as the released program does, since they harm nobody:

- ticks of another length than 0.1 s: a `Move`, a transition, a countdown and the effects on humidity go by seconds, so at
  the same speed; `Identify` and the other air do not, in strict mode
- `SkipChannel`, and the key for the previous channel, of a TV whose channel is null: answer with status 2
- `set_tick_interval` with `"1.0"` or `true`: is 1.0, which the answer shows
- `SupportedModes` of a fresh dishwasher or washer: a structure shows names, `get_all_attributes` numbers
- `DefaultMoveRate` 0: a `Move` without a rate goes at rate 1
- a tool's parameter that does not exist: the message lists the allowed ones as `Allowed: a, b`
- a text, list or object as `Rate`, `OnLevel` or `DefaultMoveRate`; a list or object as `SystemMode`; a text as `SystemMode`
  of a heat pump, and in mended mode of any device: is refused (400): once stored, it would make every later pass fail
- option masks of a light: only numbers are taken, whether it is on or off; `Options: null` counts as 0
- filters of `get_workflow_list` that are empty (`""`, `[]`, `{}`, null): count as none; 0 and `false` are refused
- `endpoint_id` of `get_attribute`: is a part of a URL: `"1"` and 1.0 are 1, `true` is refused

Three faults are never reproduced: the extra pass of every fast-forward, the noise of humidity sensors, and values that
would stop the service. Such values are refused in both modes, with `OUT_OF_RANGE`: numbers that are infinite or not below
2^63, and calls of more than 100,000 characters, 5,000 values or 32 levels. A tick is 0.001 to 3,600 virtual seconds long.

The noise of humidity sensors is never visible. But it makes the released program compute the effects on humidity anew in
each pass, as we do. Below 10 % and above 95 % a sensor stands at its bound whatever the noise is, so there the released
program keeps effects for some passes while we compute them anew. A room with a humidifier then differs by a few millionths
of 0.01 %, and by 0.002 of it after an hour.

Order within a moment t: pass t, then calls, then workflows that are due at t. A call sees passes 0 to t. The effect of a
workflow is visible from the next tick on.

Closed forms and ticks differ by rounding: a few 1e-9 after an hour. One rounding effect is reproduced on purpose. In a
simulation by ticks a value stops changing just short of its limit, once the change is too small for a floating-point
number. Our closed form stops at the same value. Otherwise a sensor that truncates could show the next integer.
"""

from __future__ import annotations

from homerl.envs.core.world import register_environment

register_environment("SimuHome-v0", "homerl.envs.simuhome.sim.env:SimuHome")
