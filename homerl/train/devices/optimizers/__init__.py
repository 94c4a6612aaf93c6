"""The optimizers of SFT and RLVE: AdamW and Muon with float32 masters of bfloat16 weights, and Muon on shards."""
