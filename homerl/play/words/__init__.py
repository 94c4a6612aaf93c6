"""Words without a world: grammars that make sentences, LLM users' manners, rules that check answers, and splits."""
