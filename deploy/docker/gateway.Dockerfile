# syntax=docker/dockerfile:1
# gateway, worker, pool supervisor and migrations, without torch: docker build -f deploy/docker/gateway.Dockerfile .
#
# PYTHON is a build argument so that the base can be pinned by its digest, which is what production should do:
#   docker buildx imagetools inspect python:3.12-slim-bookworm      # shows the digest
#   docker build --build-arg PYTHON=python:3.12-slim-bookworm@sha256:… -f deploy/docker/gateway.Dockerfile .
ARG PYTHON=python:3.12-slim-bookworm

FROM ${PYTHON} AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md ./
COPY gateway gateway
COPY engine engine
COPY kernels kernels
COPY migrations migrations
COPY workbench workbench
RUN python -m venv /opt/tollway \
    && /opt/tollway/bin/pip install --no-cache-dir -c constraints.txt '.[gateway,kubernetes,traces]'

FROM ${PYTHON}
RUN useradd --uid 10001 --home-dir /var/lib/tollway --create-home tollway \
    && install -d -o 10001 -g 10001 /var/lib/tollway/files /var/lib/tollway/spool /var/lib/tollway/run
COPY --from=build /opt/tollway /opt/tollway
ENV PATH=/opt/tollway/bin:$PATH PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /var/lib/tollway
# The API and console; metrics, when TOLLWAY_SERVER__METRICS_PORT says so.
EXPOSE 8080 9464
STOPSIGNAL SIGTERM
ENTRYPOINT ["tollway"]
CMD ["gateway"]
