"""What measures homerl on a GPU: the parts of scripts/gpu_report, and the bundle that carries homerl and vLLM to a machine
without network. Nothing of it is shipped with homerl.
"""
