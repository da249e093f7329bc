# syntax=docker/dockerfile:1
# One engine on NVIDIA GPUs: docker build -f deploy/docker/engine-cuda.Dockerfile .
# The model is not in the image: mount it, and name it by --model. torch's wheels bring the CUDA libraries, and triton its
# own ptxas; a C compiler is there because triton builds a launcher for each kernel. The host gives the driver
# (nvidia-container-toolkit). Pin PYTHON by digest as in gateway.Dockerfile.
ARG PYTHON=python:3.12-slim-bookworm

FROM ${PYTHON} AS build
WORKDIR /src
COPY pyproject.toml constraints-gpu.txt README.md ./
COPY gateway gateway
COPY engine engine
COPY kernels kernels
COPY migrations migrations
COPY workbench workbench
ARG TORCH_INDEX=https://download.pytorch.org/whl/cu130
RUN python -m venv /opt/tollway \
    && /opt/tollway/bin/pip install --no-cache-dir -c constraints-gpu.txt --extra-index-url ${TORCH_INDEX} '.[engine]'

FROM ${PYTHON}
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --home-dir /var/lib/tollway --create-home tollway \
    && install -d -o 10001 -g 10001 /var/lib/tollway/journal
COPY --from=build /opt/tollway /opt/tollway
ENV PATH=/opt/tollway/bin:$PATH PYTHONUNBUFFERED=1 \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 10001:10001
WORKDIR /var/lib/tollway
EXPOSE 8000
STOPSIGNAL SIGTERM
ENTRYPOINT ["python", "-m", "engine", "serve", "--host", "0.0.0.0", "--port", "8000"]
