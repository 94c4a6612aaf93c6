"""Run an SFT recipe on two ranks. Rank 1 never gets its batch after update 2, so the run hangs."""

import sys
import time

from transformers import Trainer

from homerl.app.runs.launch import main

get_batch_samples = Trainer.get_batch_samples


def hangs(self, *args):
    """Get batches as usual, but wait forever on rank 1 after update 2."""
    while self.accelerator.process_index == 1 and self.state.global_step == 2:
        time.sleep(1)
    return get_batch_samples(self, *args)


Trainer.get_batch_samples = hangs
sys.exit(main(sys.argv[1], sys.argv[2:]))
