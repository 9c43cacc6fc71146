# The image of sluice: built in one stage, run in another that holds Node, the built program and what it loads.
# docs/container.md says how to build and run it, and what was tried.

# Debian 13, because the HTTP acceptor's binary for Node 24 wants glibc 2.38 or later; Alpine has another C library.
# By digest, of all its platforms: a build of tomorrow begins with what was tried.
ARG BASE=node:24.21.0-trixie-slim@sha256:8ec5d7557396cfe32d21c3f9c13072355ceab22b584578ca4bb28af31120cffe

FROM ${BASE} AS build
WORKDIR /build
# The manifests first: while they stay as they are, so does the layer with the packages.
COPY package.json package-lock.json ./
# No install script is needed.
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json ./
COPY bin bin
COPY tools/build tools/build
COPY src src
RUN npm run build
# Packages that the running service loads. The optional ones stay out: piscina does without its native part.
RUN npm prune --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund
COPY deploy/image/prune.js deploy/image/
RUN node deploy/image/prune.js node_modules

FROM ${BASE} AS runtime
ARG BASE
ARG VERSION=0.4.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="sluice" \
      org.opencontainers.image.description="Takes batches of events over HTTP, checks and limits them, queues them durably, and answers" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${BASE}"
# A container's own loopback is out of reach of every probe and of Prometheus: whether anybody else gets to the admin
# port is decided by what is published, and by network policy.
# A base image on which uWebSockets.js does not load is to fail, and not to be slow.
ENV NODE_ENV=production \
    SLUICE_HTTP_ENGINE=uws \
    SLUICE_ADMIN_HOST=:: \
    SLUICE_DATA_DIR=/var/lib/sluice
WORKDIR /opt/sluice
# The data folder belongs to the user before it becomes a volume, so that a fresh volume does too. The link makes
# `docker exec CONTAINER sluice tail` work.
RUN install --directory --owner=1000 --group=1000 --mode=0750 /var/lib/sluice \
    && ln -s /opt/sluice/dist/main.js /usr/local/bin/sluice
COPY --from=build /build/node_modules node_modules
COPY --from=build /build/dist dist
COPY LICENSE package.json ./
COPY --from=build /build/bin/node-version.js bin/
COPY deploy/image/healthcheck.js ./
# By number, so that Kubernetes can see that it is not root.
USER 1000:1000
# What a 202 promised must not go with the container, even where nobody thought of a volume.
VOLUME /var/lib/sluice
EXPOSE 8080 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["node", "/opt/sluice/healthcheck.js"]
# As `npm start` runs it, without npm, so that node is process 1 and gets the signals.
ENTRYPOINT ["node", "--single-threaded-gc", "--min-semi-space-size=4", "--max-semi-space-size=4", "/opt/sluice/dist/main.js"]
CMD ["serve"]
