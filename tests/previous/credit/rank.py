"""`rank`: every step of a rollout gets the place of its return in the group."""

from pydantic import Field

from envs.model import Model
from homerl.train.credit.contract import CreditMode


class RankKeys(Model):
    rank_scale: float = Field(1.0, gt=0, description="Of `credit: rank`: advantage of the best rollout.")


class Rank(CreditMode[RankKeys]):
    name, keys = "rank", RankKeys
    sentence = "Every step gets its rollout's place in the group by return, from worst (-1) to best (1)."

    def rule(self, group, settings):
        returns = [sum(played.rewards) for played in group]
        places = [sum((mine > other) - (mine < other) for other in returns) for mine in returns]
        scale = settings.rank_scale / (len(group) - 1)
        return [[scale * place] * len(played.rewards) for place, played in zip(places, group)]

    def refuse(self, settings, group):
        if group < 3:
            yield f"a group of {group} is too small to rank"


MODE = Rank()
