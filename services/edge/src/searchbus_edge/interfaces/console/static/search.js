// One query over tools, documents and the web, side by side, with what decided about each hit.

import { post } from "./api.js";
import { badge, block, clean, code, duration, empty, failure, h, json, section, svg, toast, words } from "./dom.js";

const PARTS = [["tools", "Tools"], ["documents", "Documents"], ["web", "Web"]];
const SHOWN = 10;
const judged = new Map(); // what was judged since the page was loaded

// The text with the words of the query marked; both are text nodes.
export function marked(text, query) {
  const wanted = query.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) ?? [];
  const shown = clean(text);
  if (!wanted.length) return h("span", { class: "theirs", dir: "auto" }, shown);
  const pattern = new RegExp(`(${wanted.map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "giu");
  return h("span", { class: "theirs", dir: "auto" }, shown.split(pattern).map((part, at) => (at % 2 ? h("mark", {}, part) : part)));
}

// The parts of a score as bars; the longest is the largest share.
function scores(parts) {
  const most = Math.max(...parts.map(([, value]) => Math.abs(value)), 1e-9);
  return h("table", { class: "scores" }, h("caption", { class: "hidden" }, "Score by part"), h("tbody", {}, parts.map(([name, value, note]) => h("tr", {},
    h("th", { scope: "row" }, name), h("td", { class: "num" }, value.toFixed(3)),
    h("td", { "aria-hidden": "true" }, svg("svg", { viewBox: "0 0 60 8", width: 60, height: 8 }, svg("rect", { class: value < 0 ? "less" : "more", width: (60 * Math.abs(value)) / most, height: 8, rx: 2 }))),
    h("td", { class: "muted" }, note ?? "")))));
}

const BY = {
  tools: (hit) => ({
    href: `#/catalogue/tool/${encodeURIComponent(hit.id)}`, title: hit.id, about: hit.title, place: hit.toolset, out: hit.left_out, score: hit.probability,
    parts: [["probability", hit.probability], ["score", hit.score], ["literal", hit.literal ?? 0], ...hit.matches.slice(0, 1).flatMap((m) => [["meaning", m.cosine, "cosine"], ["words", m.words, "BM25"], ["coverage", m.coverage, "of its words"]])],
  }),
  documents: (hit) => {
    const why = hit.explanation;
    const leg = (name, part) => (part ? [[name, part.share, `${part.rank ? `rank ${part.rank}, ` : ""}${name === "words" ? "BM25" : "cosine"} ${part.score.toFixed(3)}`]] : []);
    return {
      href: `#/documents/${encodeURIComponent(hit.collection)}/${encodeURIComponent(hit.document_id)}?start=${hit.start ?? 0}&end=${hit.end ?? 0}`, title: hit.title || hit.document_id, about: hit.section, place: hit.collection, text: hit.text, score: hit.score,
      parts: [["score", hit.score], ["relevance", hit.relevance ?? 0, "probability"], ...leg("meaning", why?.meaning), ...leg("words", why?.words), ...Object.entries(why?.boosts ?? {})],
    };
  },
  web: (hit) => ({
    title: hit.title, place: hit.source, text: hit.snippet, outside: hit.url, score: hit.explanation?.score ?? 0,
    parts: Object.entries(hit.explanation ?? {}).filter(([, v]) => typeof v === "number"), more: hit.explanation,
  }),
};

function judge(part, hit, query, me) {
  const key = `${part}\n${query}\n${hit.id}`;
  const buttons = [[true, "Fits"], [false, "Does not"]].map(([relevant, label]) => h("button", {
    class: "small", type: "button", "aria-pressed": String(judged.get(key) === relevant), disabled: !me.manages,
    title: me.manages ? undefined : "Open this page by: searchbus console",
    onclick: async () => {
      const wanted = judged.get(key) === relevant ? null : relevant;
      try {
        const { queries, folder } = await post("judge", { query, part, id: hit.id, relevant: wanted });
        judged.set(key, wanted);
        buttons.forEach((b, at) => b.setAttribute("aria-pressed", String(wanted === (at === 0))));
        toast(`Kept: ${queries} judged ${queries === 1 ? "query" : "queries"} in ${folder}`, "ok");
      } catch (error) { toast(error.message, "bad"); }
    },
  }, label));
  return h("span", { class: "row", role: "group", "aria-label": "Judge this hit" }, buttons);
}

function shownHit(part, hit, rank, query, me) {
  const shown = BY[part](hit);
  const title = shown.href ? h("a", { href: shown.href, "data-row": true }, words(shown.title)) : h("span", { class: "strong", tabindex: -1, "data-row": true }, words(shown.title));
  return h("li", { class: shown.out ? "hit out" : "hit" },
    h("div", { class: "row top" }, h("span", { class: "muted num" }, `${rank}.`), title, badge(shown.place ?? ""), shown.out && badge(`left out: ${shown.out}`, "warn")),
    shown.about && h("p", { class: "muted" }, words(shown.about)),
    shown.text && h("p", { class: "passage" }, marked(shown.text, query)),
    shown.outside && h("p", { class: "muted mono" }, words(shown.outside)),
    h("div", { class: "row" }, h("details", {}, h("summary", {}, `Score ${shown.score.toFixed(3)}`), scores(shown.parts), shown.more && block(json(shown.more), "Explanation")), judge(part, hit, query, me)));
}

// What one search of documents is asked with; `read()` throws SyntaxError for a filter that is not JSON.
function settings(key, name) {
  const id = (what) => `${key}-${what}`;
  const limit = h("select", { "aria-label": `Hits${name}` }, [5, 8, 15, 20].map((n) => h("option", { value: n, selected: n === 8 }, `${n} hits`)));
  const collections = h("input", { "aria-label": `Collections${name}`, placeholder: "Collections: all" });
  const where = h("input", { class: "mono", "aria-label": `Filter of documents${name}`, placeholder: 'Filter: {"year": {"$gte": 2020}}', spellcheck: "false" });
  const box = (what, text) => [h("input", { type: "checkbox", id: id(what) }), h("label", { for: id(what) }, text)];
  const [each, relevant] = [box("each", "One of each document"), box("relevant", "Relevant only")];
  return {
    node: [collections, h("div", { class: "stretch" }, where), limit, h("span", { class: "check" }, each), h("span", { class: "check" }, relevant)],
    read() {
      const text = where.value.trim();
      const filter = text ? JSON.parse(text) : null;
      if (text && (typeof filter !== "object" || Array.isArray(filter))) throw new SyntaxError("it is not an object");
      return { limit: Number(limit.value), collections: collections.value.split(/[\s,]+/).filter(Boolean), where: filter, per_document: each[0].checked, relevant_only: relevant[0].checked };
    },
  };
}

export function show(root, { query: params }, { me }) {
  const field = h("input", { type: "search", id: "query", "data-search": true, required: true, maxlength: 1000, value: params.get("q") ?? "", placeholder: "What would an agent ask?", dir: "auto" });
  const boxes = PARTS.map(([part, title]) => { const box = h("input", { type: "checkbox", value: part, id: `part-${part}` }); box.checked = true; return [box, h("label", { for: `part-${part}` }, title)]; });
  const [first, second] = [settings("first", ""), settings("second", ", second")];
  const other = h("div", { class: "row gap", hidden: true }, h("span", { class: "strong" }, "Beside it:"), second.node);
  const compare = h("button", { type: "button", "aria-pressed": "false", onclick: () => { other.hidden = !other.hidden; compare.setAttribute("aria-pressed", String(!other.hidden)); } }, "Compare two settings");
  const results = h("div", { "aria-live": "polite" }, empty("Ask something.", "Tools, documents and the web answer side by side; each hit shows what decided about its place."));
  let running;
  async function run() {
    const query = field.value.trim();
    if (!query) return;
    running?.abort();
    running = new AbortController();
    const parts = boxes.map(([box]) => box).filter((box) => box.checked).map((box) => box.value);
    history.replaceState(null, "", `#/search?q=${encodeURIComponent(query)}`);
    results.setAttribute("aria-busy", "true");
    const began = performance.now();
    try {
      const twice = !other.hidden && parts.includes("documents");
      const asked = [{ query, parts, ...first.read() }, ...(twice ? [{ query, parts: ["documents"], ...second.read() }] : [])];
      const [found, beside] = await Promise.all(asked.map((one) => post("search", one, running.signal)));
      const took = duration(performance.now() - began);
      const columns = PARTS.filter(([part]) => found[part]).flatMap(([part, title]) => [[part, title, found[part]], ...(beside && part === "documents" ? [[part, "Documents, second settings", beside.documents]] : [])]);
      results.replaceChildren(h("p", { class: "muted", role: "status" }, `Answered in ${took}.`), h("div", { class: "sides" }, columns.map(([part, title, answer]) => {
        const { hits, problem } = answer;
        const draw = (some) => h("ol", { class: "hits" }, some.map((hit, at) => shownHit(part, hit, at + 1, query, me)));
        const list = hits?.filter((hit) => !hit.left_out) ?? [], out = hits?.filter((hit) => hit.left_out).slice(0, SHOWN) ?? [];
        return section(title, problem ? failure({ message: problem.detail })
          : list.length ? draw(list)
            : part === "documents" ? empty("No passage was found.", "Fill a collection: ", code("searchbus ingest FOLDER --collection docs")) : empty("Nothing was found.", "Ask in other words."),
        out.length ? h("details", {}, h("summary", {}, `The nearest ${out.length} that were left out`), draw(out)) : null,
        answer.left_out?.length ? h("details", {}, h("summary", {}, `${answer.left_out.length} left out`), h("ul", {}, answer.left_out.map((one) => h("li", {}, words(one.title), " ", badge(one.reason, "warn"))))) : null,
        answer.readings ? h("details", {}, h("summary", {}, "How the question was read"), block(json(answer.readings), "Readings")) : null);
      })));
    } catch (error) {
      if (error instanceof SyntaxError) error = new Error(`The filter is not a JSON object: ${error.message}.`);
      if (error.name !== "AbortError") results.replaceChildren(failure(error));
    }
    results.setAttribute("aria-busy", "false");
  }
  root.append(h("h1", {}, "Search"),
    h("form", { class: "card", role: "search", onsubmit: (event) => { event.preventDefault(); run(); } },
      h("label", { for: "query" }, "Question"), h("div", { class: "row" }, h("div", { class: "stretch" }, field), h("button", { class: "main" }, "Search")),
      h("div", { class: "row gap" }, boxes.map((pair) => h("span", { class: "check" }, pair)), compare), h("div", { class: "row" }, first.node), other),
    results);
  if (!me.manages) root.append(h("p", { class: "muted" }, "To judge hits, open this page by ", code("searchbus console"), "."));
  if (field.value) run();
  else field.focus({ preventScroll: true });
  return () => running?.abort();
}
