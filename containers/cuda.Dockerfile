# homerl on NVIDIA GPUs, with vLLM and DeepSpeed: SFT, RLVE, servers of policies and of simulated users. From the root of the repository:
#     docker build -f containers/cuda.Dockerfile -t homerl:cuda .
#     docker run --rm -it --gpus all --ipc host -v "$PWD/runs:/work/runs" homerl:cuda check recipes/rlve_full.yaml
# compose.yaml starts a policy server, a user server and a trainer from it. CUDA's compiler is in it, since DeepSpeed and Triton compile.
FROM nvidia/cuda:13.0.1-devel-ubuntu24.04
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv python3-dev curl git \
    && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml constraints.txt README.md LICENSE homerl.pth /source/
COPY envs /source/envs
COPY rewards /source/rewards
COPY homerl /source/homerl
COPY recipes /source/recipes
COPY models /source/models
RUN python3 -m venv /homerl
RUN /homerl/bin/pip install --no-cache-dir -c /source/constraints.txt "/source[gpu,kernels]"
ENV PATH=/homerl/bin:/usr/local/cuda/bin:/usr/local/bin:/usr/bin:/bin
ENV HF_HOME=/work/huggingface
WORKDIR /work
VOLUME /work
ENTRYPOINT ["homerl"]
CMD ["--help"]
