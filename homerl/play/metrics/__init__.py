"""The metrics of reports, beside success. Each file defines one as `METRIC` (`contract.py`), which has the name of its file.

A metric is in results.jsonl and score.json, in the reports of benchmarks, in model cards, at Weights & Biases and in the
glossary; with `column` in the reports of flywheels too. Folders in the environment variable HOMERL_METRICS (separated as in
PATH) are searched too.
"""

from __future__ import annotations

from homerl.envs.core.plugins import added_plugin_folders

__path__ += added_plugin_folders("metrics")
