"""The tools of PersonalHomeTools (PersonalHomeBench Table 15). `sim/env.py` lists and calls them.

A module has the tools of a group in `TOOLS`. What a call shows has an id, by which rewards know what evidence was read:

| id | shown by |
|---|---|
| `profile` | get_household_profile: size, type, layout and members' ids |
| `pet:NAME` | get_household_profile; update_pet_information |
| `member:ID` | get_household_member_info; update_user_information |
| `life:ID` | get_household_member_major_events |
| `memory:N` | both searches; N is the index in the household's memories |
| `appliance:NAME`, `sensor:NAME` | the lists of what is owned, and all that show the state: type and location |
| `state:NAME` | get_appliances, get_sensors, and both by location: the values now |
| `features:NAME` | get_appliance_features |
| `result:NAME.METHOD` | run_appliance_feature |
| `event:N` | both lists of events; N is the index in the household's context |
| `weather` | get_weather |

The ids of the scene tools stand in `scene_tools.py`.
"""
