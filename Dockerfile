# The CPU build of sdfcli:
#   docker build -t sdfcli .
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" sdfcli build scans/ -o fields/
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc g++ && rm -rf /var/lib/apt/lists/*
COPY . /source
RUN python -m venv /opt/sdfcli && /opt/sdfcli/bin/pip install --no-cache-dir '/source[cluster]'

FROM python:3.13-slim
COPY --from=build /opt/sdfcli /opt/sdfcli
ENV PATH=/opt/sdfcli/bin:$PATH
WORKDIR /data
ENTRYPOINT ["sdfcli"]
