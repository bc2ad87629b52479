// Tavily's client for TypeScript; only the address is ours.
const [modules, url, query, page, missing] = JSON.parse(process.argv[2]);
const { tavily } = require(require.resolve("@tavily/core", { paths: [modules] }));

async function main() {
  const client = tavily({ apiKey: "tvly-unused", apiBaseURL: `${url}/tavily` });
  const search = await client.search(query, { maxResults: 3, includeRawContent: "markdown" });
  const extract = await client.extract([page, missing], { timeout: 60 });
  const refused = await client.search(query, { topic: "finance" }).catch((error) => error.message);
  console.log(JSON.stringify({ search, extract, refused }));
}

main();
