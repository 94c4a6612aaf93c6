"""PersonalHome: households with people, memories and appliances, and the tools to look at them and act in them.

The world of PersonalHomeBench (arXiv 2604.16813). A household is data (`household.py`); `generate/` makes it from a seed.
Its appliances are devices of a HomeEnv home, described by the files in `catalogue/`.

What the paper leaves open, and our choices:

- programs behind the questions: a small language of tables: select, filter, join, count, compare, latest
- ground truth of rankings (an LLM said it): conditions in `sim/features.yaml`, with weights and margins
- ground truth of plans (none): rules on the end state, beside the judge
- parameters, results and states of the appliances' methods: device files in `sim/catalogue/`, each method with
  a refusal that can happen
- more than 40 appliances; Table 16 has 31: 40 kinds, 8 kinds of sensors
- `major_events` is printed as a copy of pets: date and description
- shares of sizes and types: half of the households are singles, 30 % families, 20 % roommates
- videos: transcripts that are made from typed scripts; `--videos` serves real clips
- agents behind tools: deterministic: BM25 search, transcripts that are read
- what the answer `-1` of the judge counts: as 0, and it is reported
"""
