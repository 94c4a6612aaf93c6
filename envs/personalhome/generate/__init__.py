"""Makes households from seeds: `make_household` is a pure function of a seed and a `HouseholdRecipe`."""

from envs.personalhome.generate.make import make_household
from envs.personalhome.generate.recipe import DEFAULT, HouseholdRecipe

__all__ = ["DEFAULT", "HouseholdRecipe", "make_household"]
