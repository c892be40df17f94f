# sdfcli on the CPU:
#   docker build -t sdfcli .
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" sdfcli build scans/ -o fields/
# On NVIDIA GPUs, whose driver the NVIDIA Container Toolkit brings in; a folder of yours keeps the compiled kernels, which
# are run, so that nobody else may write to it:
#   docker build -t sdfcli:cuda13 --build-arg EXTRAS=cluster,cuda13 .
#   mkdir -p ~/.cache/sdfcli-kernels
#   docker run --rm --gpus all --user "$(id -u):$(id -g)" -v ~/.cache/sdfcli-kernels:/kernels -v "$PWD:/data" sdfcli:cuda13 build scans/
FROM python:3.13-slim AS build
ARG EXTRAS=cluster
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends gcc g++ && rm -rf /var/lib/apt/lists/*
# The version, which the image's copy of the source has no Git to tell.
ARG SETUPTOOLS_SCM_PRETEND_VERSION
COPY . /source
RUN python -m venv /opt/sdfcli && /opt/sdfcli/bin/pip install --no-cache-dir "/source[$EXTRAS]"

FROM python:3.13-slim
COPY --from=build /opt/sdfcli /opt/sdfcli
ENV PATH=/opt/sdfcli/bin:$PATH \
    CUPY_CACHE_DIR=/kernels \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
RUN useradd --create-home --uid 1000 sdfcli && install --directory --owner=sdfcli --group=sdfcli --mode=700 /kernels
USER sdfcli
WORKDIR /data
ENTRYPOINT ["sdfcli"]
