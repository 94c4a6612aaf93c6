"""Makes households from seeds: `make_household` is a pure function of a seed and a `HouseholdRecipe`."""

from homerl.envs.personalhome.sim.generate.household_maker import HouseholdRecipe, make_household

__all__ = ["HouseholdRecipe", "make_household"]
