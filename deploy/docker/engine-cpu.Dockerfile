# syntax=docker/dockerfile:1
# One engine on the CPU: docker build -f deploy/docker/engine-cpu.Dockerfile .
# The model is not in the image: mount it, and name it by --model. Pin PYTHON by digest as in gateway.Dockerfile.
ARG PYTHON=python:3.12-slim-bookworm

FROM ${PYTHON} AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md ./
COPY gateway gateway
COPY engine engine
COPY kernels kernels
COPY migrations migrations
COPY workbench workbench
# The CPU build of torch, which is a tenth of the other one.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN python -m venv /opt/tollway \
    && /opt/tollway/bin/pip install --no-cache-dir -c constraints.txt --extra-index-url ${TORCH_INDEX} '.[engine]'

FROM ${PYTHON}
RUN useradd --uid 10001 --home-dir /var/lib/tollway --create-home tollway \
    && install -d -o 10001 -g 10001 /var/lib/tollway/journal
COPY --from=build /opt/tollway /opt/tollway
ENV PATH=/opt/tollway/bin:$PATH PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /var/lib/tollway
EXPOSE 8000
STOPSIGNAL SIGTERM
ENTRYPOINT ["python", "-m", "engine", "serve", "--host", "0.0.0.0", "--port", "8000"]
