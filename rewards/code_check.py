"""CodeCheck: no restricted Python (HomeFlow D.2)."""

import ast

from homerl.envs.core.restricted_python import restricted_uses
from homerl.envs.core.world import StepFacts
from homerl.rewards.reward import Reward


def code_check(facts: StepFacts) -> float:
    """-1 if the step's code uses introspection, dynamic execution or other restricted Python, else 0.

    Code that cannot be parsed gives 0: the auditor refuses it (`syntax`). But if the auditor refused one of several calls
    for restricted Python, another one that cannot be parsed does not hide it.
    """
    if not facts.code:
        return 0.0
    try:
        tree = ast.parse(facts.code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return -float("restricted_code" in facts.blocked)
    return -float(bool(restricted_uses(ast.walk(tree))))


REWARD = Reward(code_check, weight=0.2, card="lost for code outside restricted Python", order=4)
