"""A home as Home Assistant's Assist API shows and controls it.

- `value_translation.py` and `table.yaml`: how our devices and values correspond to Home Assistant's.
- `entities_of_home.py`: the entities, areas and floors of a home, and the states that they show.
- `api_and_prompt.py`: the recorded API, and the prompt.
- `intents.py`: how the slots of an intent are read, which entities they mean, and the service calls that follow.
- `assist_tools.py`: the tools of an agent, and their answers.
- `assist_writer.py`: writes service calls as calls of these tools, for the scripted expert.
"""
