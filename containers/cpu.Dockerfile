# homerl on a CPU: the quickstart, chat, serve, benchmarks, the shipped models. From the root of the repository:
#     docker build -f containers/cpu.Dockerfile -t homerl:cpu .
#     docker run --rm -it -v homerl:/work homerl:cpu run recipes/quickstart.yaml
#     docker run --rm -it -v homerl:/work homerl:cpu chat runs/quickstart
#     docker run --rm -it -v homerl:/work -p 8000:8000 -e KEY homerl:cpu serve runs/quickstart --host 0.0.0.0 --key-env KEY
FROM python:3.11-slim AS build
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY pyproject.toml constraints.txt README.md LICENSE homerl.pth /source/
COPY envs /source/envs
COPY rewards /source/rewards
COPY homerl /source/homerl
COPY recipes /source/recipes
COPY models /source/models
RUN python3 -m venv /homerl
RUN /homerl/bin/pip install --no-cache-dir ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} -c /source/constraints.txt \
        "$(sed -n 's/^torch==\([^ +]*\).*/torch==\1+cpu/p' /source/constraints.txt)" "/source[train,gguf]"

FROM python:3.11-slim
COPY --from=build /homerl /homerl
RUN useradd --system --uid 10001 --create-home --home-dir /work homerl
ENV PATH=/homerl/bin:/usr/local/bin:/usr/bin:/bin
USER homerl
WORKDIR /work
VOLUME /work
EXPOSE 8000
ENTRYPOINT ["homerl"]
CMD ["--help"]
