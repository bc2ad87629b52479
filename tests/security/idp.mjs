// A real OpenID provider on loopback for the tests: client credentials, JWT access tokens, roles.
import * as oidc from "oidc-provider";
import http from "node:http";

const [, , port, resource] = process.argv;
const issuer = `http://127.0.0.1:${port}`;
const client = (client_id, scope) => ({
  client_id, client_secret: "secret", grant_types: ["client_credentials"], redirect_uris: [],
  response_types: [], scope,
});
const provider = new oidc.Provider(issuer, {
  clients: [client("reader", "read"), client("searcher", "read MCP-WEB-SEARCH")],
  scopes: ["read", "MCP-WEB-SEARCH"],
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (ctx, indicator) => ({
        scope: "read MCP-WEB-SEARCH", audience: indicator, accessTokenFormat: "jwt",
        accessTokenTTL: 300, jwt: { sign: { alg: "RS256" } },
      }),
      defaultResource: () => resource,
    },
  },
  extraTokenClaims: (ctx, token) => ({ roles: (token.scope ?? "").split(" ").map((s) => `ROLE_${s}`) }),
});
http.createServer(provider.callback()).listen(Number(port), "127.0.0.1", () => console.log("ready"));
