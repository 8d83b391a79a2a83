# docker build -t least-monitor .
# docker build -t least-monitor-reading --build-arg REQUIREMENTS=requirements-reading.txt .
#   for who only reads a store (incidents, explain, graph, silence, store): what learns is not in it.
# Pin the base by digest where you build: --build-arg BASE=python:3.12-slim-bookworm@sha256:…
ARG BASE=python:3.12-slim-bookworm

FROM ${BASE} AS build
WORKDIR /src
RUN python -m venv /opt/least-monitor
# Requirements first: they change seldom, and the layer is the big one. Every package is pinned by hash.
# Kafka's client, PostgreSQL's driver and Apprise are among them; numba (190 MB) is not, since the
# monitor learns with TensorFlow. TensorFlow's C++ headers (290 MB) and libclang (61 MB) serve only who
# builds operations, what packages bring to test themselves (60 MB) nobody here.
ARG REQUIREMENTS=requirements.txt
COPY ${REQUIREMENTS} requirements.txt
RUN /opt/least-monitor/bin/pip install --no-cache-dir --require-hashes -r requirements.txt \
    && rm -rf /opt/least-monitor/lib/python3*/site-packages/tensorflow/include \
        /opt/least-monitor/lib/python3*/site-packages/clang \
    && find /opt/least-monitor/lib/python3*/site-packages -name tests -prune -exec rm -rf {} +
COPY pyproject.toml README.md LICENSE ./
COPY least least
COPY monitor monitor
RUN /opt/least-monitor/bin/pip install --no-cache-dir --no-deps --no-build-isolation --no-index . \
    && /opt/least-monitor/bin/least-monitor --version

FROM ${BASE}
RUN useradd --system --uid 10001 --home-dir /var/lib/least-monitor --create-home least-monitor
COPY --from=build /opt/least-monitor /opt/least-monitor
ENV PATH=/opt/least-monitor/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    TF_CPP_MIN_LOG_LEVEL=2
USER 10001:10001
WORKDIR /var/lib/least-monitor
VOLUME /var/lib/least-monitor
EXPOSE 9469
# SIGTERM ends the tick in progress and writes the store.
STOPSIGNAL SIGTERM
# A standby is healthy, too; whether it works is /readyz.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["python", "-c", \
    "import urllib.request as r; r.urlopen('http://127.0.0.1:9469/healthz', timeout=4)"]
ENTRYPOINT ["least-monitor"]
CMD ["run", "-c", "/etc/least-monitor/monitor.toml", "--log-format", "json"]
