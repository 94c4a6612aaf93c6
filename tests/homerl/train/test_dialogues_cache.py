"""Dialogues that one process has tokenized are read by the others: its work is found again, and goes to other processes."""

from datasets import Dataset

from homerl.train.data import sft_dialogues as dialogues


def test_tokenized_dialogues_are_found_again(tokenizer, monkeypatch):
    monkeypatch.setattr(dialogues, "count_map_processes", lambda rows, ranks=1: 2)
    messages = [{"role": "user", "content": "Is it on?"}, {"role": "assistant", "content": "Yes."}]
    rows = Dataset.from_list([{"messages": messages, "tools": "[]", "unlearnt": []}] * 4)
    first, again = (dialogues.tokenize_dialogues(rows, tokenizer, "assistant", "data") for _ in range(2))
    assert first._fingerprint == again._fingerprint and min(first["said"]) > 0
