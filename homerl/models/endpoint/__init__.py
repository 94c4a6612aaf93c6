"""Chat models behind OpenAI-compatible endpoints: requests, retries, structured answers, and vLLM servers of a run."""
