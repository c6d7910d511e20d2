# Draftscope on a CPU, on a server of one's own: docker build --tag draftscope .
# For a GPU: docker build --build-arg HARDWARE=l4x1 --tag draftscope . && docker run --gpus all ...
FROM python:3.12-slim AS space
ARG HARDWARE=cpu-basic
WORKDIR /checkout
COPY . .
RUN pip install --no-cache-dir 'huggingface-hub>=1.0' packaging 'pydantic>=2.10' pyyaml \
    && PYTHONPATH=engine:app python -m draftscope_app.cli.main space build /space --hardware "$HARDWARE"

FROM python:3.12-slim
COPY --from=space /space/requirements.txt /space/requirements.txt
RUN pip install --no-cache-dir --requirement /space/requirements.txt \
    && useradd --create-home draftscope
COPY --from=space --chown=draftscope /space /space
USER draftscope
WORKDIR /space
ENV GRADIO_SERVER_NAME=0.0.0.0 GRADIO_SERVER_PORT=7860 PYTHONUNBUFFERED=1
EXPOSE 7860
HEALTHCHECK --start-period=60s CMD ["python", "-c", \
    "import os, urllib.request; urllib.request.urlopen(f\"http://127.0.0.1:{os.environ['GRADIO_SERVER_PORT']}/healthz\")"]
# SIGTERM ends it once the runs in progress are over; give it longer than DRAFTSCOPE_GRACE_S
STOPSIGNAL SIGTERM
CMD ["python", "app/main.py"]
