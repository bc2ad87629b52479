// The TypeScript SDK's server: `ts_sdk.mjs PORT 1|2`. Stateless, JSON; a server for each request, as
// the example of version 1 and the README of version 2 have it.
// pinned: @modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/server@2.4.0 @modelcontextprotocol/node@2.1.2 zod@4.6.7
import { createServer } from "node:http";
import { setTimeout } from "node:timers/promises";
import * as z from "zod";

const [port, version] = process.argv.slice(2);
const [{ McpServer }, transports] = await Promise.all(
  version === "1"
    ? [import("@modelcontextprotocol/sdk/server/mcp.js"), import("@modelcontextprotocol/sdk/server/streamableHttp.js")]
    : [import("@modelcontextprotocol/server"), import("@modelcontextprotocol/node")],
);
const Transport = transports.StreamableHTTPServerTransport ?? transports.NodeStreamableHTTPServerTransport;
const inputSchema = version === "1" ? { text: z.string() } : z.object({ text: z.string() });

function answer(wait_ms) {
  return async ({ text }) => {
    if (wait_ms) await setTimeout(wait_ms);
    return { content: [{ type: "text", text }] };
  };
}

createServer(async (request, response) => {
  const server = new McpServer({ name: "echo", version: "1" });
  server.registerTool("echo", { description: "Return the text.", inputSchema }, answer(0));
  server.registerTool("slow", { description: "Return the text after a second.", inputSchema }, answer(1000));
  const transport = new Transport({ sessionIdGenerator: undefined, enableJsonResponse: true });
  response.on("close", () => server.close());
  await server.connect(transport);
  await transport.handleRequest(request, response);
}).listen(Number(port), "127.0.0.1");
