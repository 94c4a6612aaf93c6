"""HomeMaker: generates coherent homes, from real weather to the state of each device (HomeFlow 3.2.2).

`make.py` makes a home from a seed and a recipe. It calls the other files in this order:

- `weather.py` draws a typical year, a minute of it, and its weather.
- `layout_and_furniture.py` draws the rooms, and devices with names from the lexicon.
- `home_names.py` has the lexicon. It replaces some names by words that no lexicon has, and adds aliases.
- `initial_state.py` computes the air of the rooms and draws the values of the devices.

Of people's own home files, `make.py` draws only weather, hour and state.
"""
