// Tavily's client for TypeScript; only the address is ours.
const [modules, url, query, page, missing] = JSON.parse(process.argv[2]);
const { tavily } = require(require.resolve("@tavily/core", { paths: [modules] }));

// A busy machine may answer 503, after which a client sends its request again.
async function again(call, tries = 5) {
  try {
    return await call();
  } catch (error) {
    if (tries === 1) throw error;
    await new Promise((resolve) => setTimeout(resolve, 1000));
    return again(call, tries - 1);
  }
}

async function main() {
  const client = tavily({ apiKey: "tvly-unused", apiBaseURL: `${url}/tavily` });
  const options = { maxResults: 3, includeRawContent: "markdown" };
  const search = await again(() => client.search(query, options));
  const extract = await again(() => client.extract([page, missing], { timeout: 60 }));
  const refused = await client.search(query, { topic: "finance" }).catch((error) => error.message);
  console.log(JSON.stringify({ search, extract, refused }));
}

main();
