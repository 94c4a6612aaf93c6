"""Makes households from seeds: `make_household` is a pure function of a seed and a `HouseholdRecipe`."""

from homerl.envs.personalhome.sim.generate.make import make_household
from homerl.envs.personalhome.sim.generate.recipe import DEFAULT, HouseholdRecipe

__all__ = ["DEFAULT", "HouseholdRecipe", "make_household"]
