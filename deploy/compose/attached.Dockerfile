# Images for deploy/compose/attached.yml: `commands` is searchbus/attach with Node.js and a server that it starts,
# `everything` is a server in a container of its own. Replace the packages by those that you attach.
ARG TAG=dev
ARG NODE=node:24-slim

FROM ${NODE} AS servers
RUN npm install --global --ignore-scripts \
        @modelcontextprotocol/server-filesystem@2026.8.31 @modelcontextprotocol/server-everything@2026.8.31

FROM searchbus/attach:${TAG} AS commands
COPY --from=servers /usr/local/bin/node /usr/local/bin/node
COPY --from=servers /usr/local/lib/node_modules /usr/local/lib/node_modules
USER 0:0
RUN ln -s ../lib/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js /usr/local/bin/mcp-server-filesystem
USER 65532:65532
# The user has no home, and the file system is read-only; commands get this variable.
ENV HOME=/tmp

FROM servers AS everything
ENV PORT=3001
USER 65532:65532
EXPOSE 3001
HEALTHCHECK --interval=5s --timeout=3s --retries=12 \
    CMD ["node", "-e", "require('net').connect(3001, '127.0.0.1').on('connect', () => process.exit(0)).on('error', () => process.exit(1))"]
ENTRYPOINT ["mcp-server-everything", "streamableHttp"]
