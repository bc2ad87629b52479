// The TypeScript SDK; each schema is also compiled by ajv, in the way of frameworks that check arguments.
const [modules, server, wanted] = JSON.parse(process.argv[2]);
const find = (file) => require(require.resolve(file, { paths: [modules] }));
const { Client } = find("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = find("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { AjvJsonSchemaValidator } = find("@modelcontextprotocol/sdk/validation/ajv");

async function main() {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(server.url)));
  const { tools } = await client.listTools();
  const validator = new AjvJsonSchemaValidator();
  for (const tool of tools) validator.getValidator(tool.inputSchema);
  const calls = [];
  for (const params of wanted) {
    const result = await client.callTool(params);
    const { structuredContent: structured, _meta: meta } = result;
    calls.push({ error: Boolean(result.isError), text: result.content[0].text, structured, meta });
  }
  console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), calls }));
  await client.close();
}

main();
