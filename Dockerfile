# dpbart serve, as an unprivileged user. Build it from a checkout:
#   docker build -t dpbart .
#   docker run --rm -p 127.0.0.1:8000:8000 -v dpbart:/var/lib/dpbart dpbart
# The server prints its token once: docker logs shows it. Give your own with --token-file.
FROM python:3.11.13-slim-bookworm AS build

# Without GPU libraries: the CPU builds of torch have an index of their own.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

WORKDIR /src
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/dpbart \
 && /opt/dpbart/bin/pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" --constraint constraints.txt ".[bart,excel,sign,web]"

# A second stage: otherwise the models are in the image twice, as source and installed.
FROM python:3.11.13-slim-bookworm
RUN useradd --no-create-home --uid 10001 dpbart \
 && install -d -o dpbart -g dpbart -m 0700 /var/lib/dpbart
COPY --from=build /opt/dpbart /opt/dpbart
ENV PATH=/opt/dpbart/bin:$PATH

USER dpbart
WORKDIR /var/lib/dpbart
ENV HOME=/var/lib/dpbart
VOLUME /var/lib/dpbart
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz')"]
ENTRYPOINT ["dpbart", "serve", "--host", "0.0.0.0", "--state", "/var/lib/dpbart/state"]
