"""Run an SFT recipe whose last rank never gets the batch of update 2."""

import sys
import time

from transformers import Trainer

from homerl.run.launch import main

get_batch_samples = Trainer.get_batch_samples


def hangs(self, *args):
    while self.accelerator.process_index == 1 and self.state.global_step == 2:
        time.sleep(1)
    return get_batch_samples(self, *args)


Trainer.get_batch_samples = hangs
sys.exit(main(sys.argv[1], sys.argv[2:]))
