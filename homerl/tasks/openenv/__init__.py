"""Tasks by OpenEnv's protocol, for trainers that speak it. It needs the package `openenv` (the extra `interop`)."""
