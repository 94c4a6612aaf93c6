"""TRL's fused head scores every position on devices without Triton, those without a label too.

`trl.trainer.utils.add_fused_lm_head` selects the labelled positions only where it can use Triton. On a CPU a prompt of
1,000 tokens then costs the head 1,000 times, although nothing in it is trained on.

Versions: trl 1.16.
Upstream: no upstream issue known. To reproduce: count the floating-point operations of a forward pass with
`fused_lm_head=True` whose labels are all -100.
"""

from __future__ import annotations


def score_labelled_positions() -> None:
    """Select the labelled positions on every device. The kernels themselves still use Triton only where it is."""
    import trl.trainer.utils

    trl.trainer.utils._use_triton = lambda device: True
