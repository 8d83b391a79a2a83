# docker build -t least-monitor .
# docker run -v ./monitor.toml:/etc/least-monitor/monitor.toml:ro -v data:/var/lib/least-monitor least-monitor
FROM python:3.12-slim AS build
WORKDIR /src
RUN python -m venv /opt/least-monitor
# Requirements first: they change seldom, and the layer is the big one.
COPY requirements.txt .
RUN /opt/least-monitor/bin/pip install --no-cache-dir --require-hashes -r requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY least least
COPY monitor monitor
RUN /opt/least-monitor/bin/pip install --no-cache-dir --no-deps --no-build-isolation --no-index .

FROM python:3.12-slim
RUN useradd --system --uid 10001 --home-dir /var/lib/least-monitor --create-home least-monitor
COPY --from=build /opt/least-monitor /opt/least-monitor
ENV PATH=/opt/least-monitor/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    TF_CPP_MIN_LOG_LEVEL=2
USER 10001
WORKDIR /var/lib/least-monitor
VOLUME /var/lib/least-monitor
EXPOSE 9469
# SIGTERM ends the tick in progress and writes the store.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD ["python", "-c", \
    "import urllib.request as r; r.urlopen('http://127.0.0.1:9469/healthz', timeout=4)"]
ENTRYPOINT ["least-monitor"]
CMD ["run", "-c", "/etc/least-monitor/monitor.toml"]
