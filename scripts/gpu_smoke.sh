#!/usr/bin/env bash
# On the GPU machine, beside .whl: installs those wheels into .gpu-site and proves that the server starts and answers.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
rm -rf .gpu-site
"$python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --target .gpu-site .whl/*.whl
PYTHONPATH=.gpu-site exec "$python" scripts/smoke.py "$@"
