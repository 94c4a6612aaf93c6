"""Run a recipe, and leave what its trainer's shards answer to fixed ids at the end, and which part a rank holds."""

import sys

import torch

from homerl.launch import main
from homerl.train import parallel

save_model = parallel.Spread.save_model


def and_logits(self, output_dir=None, _internal_call=False):
    save_model(self, output_dir, _internal_call)
    if not _internal_call:
        with torch.no_grad():
            found = self.model_wrapped.eval()(torch.arange(3, 60)[None]).logits
        held = [(p.to_local().numel(), p.numel()) for p in self.model_wrapped.state_dict().values()]
        if self.accelerator.is_main_process:
            folder = self.args.output_dir + "/.."
            torch.save(found, f"{folder}/logits.pt")
            torch.save(torch.tensor(sum(h for h, _ in held) / sum(n for _, n in held)), f"{folder}/shards.pt")


parallel.Spread.save_model = and_logits
sys.exit(main(sys.argv[1], sys.argv[2:]))
