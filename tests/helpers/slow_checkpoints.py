"""Run a recipe whose shards take so many seconds to write:  slow_checkpoints.py SECONDS RECIPE"""

import sys
import time

from torch.distributed.checkpoint import FileSystemWriter

from homerl.app.runs.launch import main

write_data = FileSystemWriter.write_data


def slowly(self, *args):
    """Write as usual, after a while."""
    time.sleep(float(sys.argv[1]))
    return write_data(self, *args)


FileSystemWriter.write_data = slowly
sys.exit(main(sys.argv[2], sys.argv[3:]))
