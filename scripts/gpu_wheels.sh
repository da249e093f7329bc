#!/usr/bin/env bash
# Gathers the wheels that the GPU machine lacks (Python 3.12, x86-64 Linux) into .whl, with their dependencies.
# Usage: scripts/gpu_wheels.sh      then, on the GPU machine: scripts/gpu_smoke.sh
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-$([ -x .venv/bin/python ] && echo .venv/bin/python || echo python3)}
pins=$(mktemp)
trap 'rm -f "$pins"' EXIT
sed -n '/^fastapi==/,$p' constraints-gpu.txt >"$pins" # what the machine has already is not fetched
rm -rf .whl
"$python" -m pip download --quiet --disable-pip-version-check --dest .whl --constraint "$pins" \
    --only-binary=:all: --implementation cp --python-version 3.12 --abi cp312 --abi abi3 --abi none \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
    fastapi uvicorn httptools pydantic msgspec pyzmq orjson setproctitle
# What it asks for beside these (torch, transformers, triton) is there.
"$python" -m pip download --quiet --disable-pip-version-check --dest .whl --constraint "$pins" --no-deps \
    --only-binary=:all: --implementation cp --python-version 3.12 --abi cp312 \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 xgrammar apache-tvm-ffi
echo "$(find .whl -name '*.whl' | wc -l) wheels, $(du -sh .whl | cut -f1), in .whl"
