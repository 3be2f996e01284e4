# syntax=docker/dockerfile:1
# The proxy's image (target `epochgate`, the default) and the one with Spark beside it (target `pipeline`).
#
#   docker build --build-arg REVISION=$(git rev-parse HEAD) --tag epochgate:0.1.0 .
#   docker build --target pipeline --tag epochgate-pipeline:0.1.0 .
#
# Pinned: Python packages (requirements/*.lock) and jars (tools/spark_connector/jars.sha256) by hash, base images by version and by the digest of their index, which
# has all architectures (`docker buildx imagetools inspect python:3.11.14-slim-bookworm` prints it).
ARG PYTHON_IMAGE=python:3.11.14-slim-bookworm@sha256:65a93d69fa75478d554f4ad27c85c1e69fa184956261b4301ebaf6dbb0a3543d
ARG MAVEN_IMAGE=maven:3.9.9-eclipse-temurin-17@sha256:f58d59b6273e785ac0a4477f6e9b5ba1d7731c75b906c0f7b34076f1851318cc
# Named again in each stage that uses them: buildah, unlike BuildKit, does not hand them on with `FROM build`.
ARG WHEELS=/wheels
ARG PREFIX=/opt/epochgate

# Wheels of what the proxy needs, and a virtual environment made of nothing else.
FROM ${PYTHON_IMAGE} AS build
ARG WHEELS
ARG PREFIX
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY requirements/image.lock requirements/build.lock requirements/
RUN --mount=type=cache,target=/root/.cache/pip \
    python -m pip wheel --require-hashes --only-binary :all: --wheel-dir "$WHEELS" -r requirements/image.lock \
    && python -m venv /tmp/build \
    && /tmp/build/bin/python -m pip install --require-hashes -r requirements/build.lock
COPY pyproject.toml README.md LICENSE ./
COPY protocol_codecs protocol_codecs
COPY translation translation
COPY coordinator coordinator
COPY hosting hosting
COPY proxy proxy
COPY pipeline pipeline
RUN /tmp/build/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir "$WHEELS" . \
    && python -m venv --without-pip "$PREFIX" \
    && python -m pip --python "$PREFIX/bin/python" install --no-index --find-links "$WHEELS" "epochgate[demo,fleet]" \
    && "$PREFIX/bin/epochgate" --version

# Spark's connector to Kafka.
FROM ${MAVEN_IMAGE} AS connector
WORKDIR /src
COPY tools/spark_connector/pom.xml tools/spark_connector/jars.sha256 ./
RUN mvn -q -B -Djars.directory=/jars dependency:copy-dependencies
WORKDIR /jars
RUN sha256sum --check --strict /src/jars.sha256 \
    && set -- * \
    && test "$#" -eq "$(wc -l < /src/jars.sha256)"

# The same with Spark. The connector lies among Spark's own jars, where drivers and executors find it, and the command has
# a name that spark-submit takes for Python.
FROM build AS build-pipeline
ARG WHEELS
ARG PREFIX
COPY requirements/pipeline.lock requirements/
RUN --mount=type=cache,target=/root/.cache/pip \
    /tmp/build/bin/python -m pip wheel --require-hashes --no-build-isolation --wheel-dir "$WHEELS" \
        -r requirements/pipeline.lock \
    && python -m pip --python "$PREFIX/bin/python" install --no-index --find-links "$WHEELS" "epochgate[pipeline]" \
    && ln -s "$PREFIX"/lib/python3*/site-packages/pyspark "$PREFIX/spark" \
    && ln -s epochgate "$PREFIX/bin/epochgate.py"
COPY --from=connector /jars /opt/epochgate/spark/jars

# What runs: Python, the virtual environment, and a user who may write nothing.
FROM ${PYTHON_IMAGE} AS base
LABEL org.opencontainers.image.title="Epochgate" \
      org.opencontainers.image.description="Online migration proxy for Kafka consumer groups" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/epochgate/epochgate" \
      org.opencontainers.image.documentation="https://github.com/epochgate/epochgate/tree/main/docs"
RUN groupadd --gid 10001 epochgate \
    && useradd --uid 10001 --gid 10001 --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin epochgate
ENV PATH=/opt/epochgate/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /tmp
ENTRYPOINT ["epochgate"]

# Java first, so that a new version of the proxy changes only the last layer.
FROM base AS pipeline
# No version: Debian's security updates take the place of the version before, which is then gone.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends default-jre-headless \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build-pipeline /opt/epochgate /opt/epochgate
ENV JAVA_HOME=/usr/lib/jvm/default-java \
    SPARK_HOME=/opt/epochgate/spark \
    PYSPARK_PYTHON=/opt/epochgate/bin/python \
    MALLOC_ARENA_MAX=2
USER 10001:10001
ENTRYPOINT ["python", "-P", "-m", "pipeline.pod"]
CMD ["pipeline", "--help"]
# Last, since every commit changes it.
ARG REVISION=unknown
LABEL org.opencontainers.image.revision="$REVISION"

FROM base AS epochgate
COPY --from=build /opt/epochgate /opt/epochgate
USER 10001:10001
EXPOSE 9092 9100-9109 9080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ.get('EPOCHGATE_ADMIN__PORT', '9080') + '/healthz', timeout=4)"]
CMD ["run", "--config", "/etc/epochgate/config/epochgate.yaml"]
ARG REVISION=unknown
LABEL org.opencontainers.image.revision="$REVISION"
