// The stack's own traces: the newest, and one as a waterfall.

import { get } from "./api.js";
import { ago, badge, code, count, duration, empty, failure, h, link, section, svg, table, words } from "./dom.js";

export async function show(root, { parts, query }, app) {
  const [id] = parts;
  return id ? showTrace(root, id, app) : showList(root, query);
}

async function showList(root, query) {
  let running, waiting;
  const text = h("input", { type: "search", "data-search": true, "aria-label": "Words of the name, a service or an id", placeholder: "Filter: web_search, retrieval …  /", value: query.get("text") ?? "", oninput: () => soon() });
  const least = h("select", { "aria-label": "Least duration", onchange: () => draw() }, [[0, "Any duration"], [50, "50 ms or more"], [200, "200 ms or more"], [1000, "1 s or more"], [5000, "5 s or more"]].map(([v, t]) => h("option", { value: v }, t)));
  const failed = h("input", { type: "checkbox", id: "failed", onchange: () => draw() });
  const every = h("input", { type: "checkbox", id: "every", onchange: () => draw() });
  const list = table("Traces", [
    { name: "What", class: "grow", sign: (t) => t.id + t.name, cell: (t) => h("a", { href: `#/traces/${t.id}`, "data-row": true, class: "mono" }, words(t.name)) },
    { name: "Outcome", cell: (t) => (t.error ? badge(words(t.error).textContent, "bad") : badge("ok", "ok")) },
    { name: "Services", class: "wide", cell: (t) => words(t.services.join(", ")) },
    { name: "Spans", class: "num wide", cell: (t) => count(t.spans) },
    { name: "Duration", class: "num", cell: (t) => duration(t.duration_ms) },
    { name: "Age", class: "num", cell: (t) => ago(t.start_ms) },
  ], (t) => t.id, empty("No trace matches.", "Call a tool, or use fewer words."));
  const status = h("p", { class: "muted", role: "status" });
  const fault = h("div");
  const soon = () => { clearTimeout(waiting); waiting = setTimeout(draw, 200); };
  async function draw() {
    running?.abort();
    running = new AbortController();
    try {
      const found = await get("traces", { text: text.value, least_ms: least.value, failed: failed.checked, every: every.checked }, running.signal);
      list.update(found.traces);
      status.textContent = found.total > found.traces.length ? `The newest ${found.traces.length} of ${count(found.total)}.` : "";
      fault.replaceChildren();
    } catch (error) { if (error.name !== "AbortError") fault.replaceChildren(failure(error)); }
  }
  root.append(h("h1", {}, "Traces"), h("div", { class: "row tools" }, text, least, h("span", { class: "check" }, failed, h("label", { for: "failed" }, "Failed only")), h("span", { class: "check" }, every, h("label", { for: "every" }, "Background too")), h("button", { onclick: () => draw() }, "Look again")), fault, list, status);
  await draw();
  return () => { running?.abort(); clearTimeout(waiting); };
}

const WIDTH = 400;

async function showTrace(root, id, app) {
  let found;
  for (let tries = 0; ; tries++) {
    try { found = await get("trace", { id }); break; } catch (error) {
      if (error.status !== 404 || tries >= 3) throw error;
      await new Promise((resolve) => setTimeout(resolve, 500)); // spans are written a moment after a call
    }
  }
  const { trace, spans } = found;
  const total = Math.max(trace.duration_ms, 0.001);
  const services = [...new Set(spans.map((s) => s.service))];
  const detail = h("div");
  const rows = spans.map((span) => {
    const from = (WIDTH * span.start_ms) / total, wide = Math.max(1.5, (WIDTH * span.duration_ms) / total);
    const open = h("button", { class: "span", type: "button", "data-row": true, onclick: () => showSpan(span) }, words(span.name));
    const cell = h("td", { class: "what" }, open, span.error && h("span", { class: "brief" }, badge("failed", "bad")));
    cell.style.setProperty("--depth", Math.min(span.depth, 12));
    return h("tr", {}, h("th", { scope: "row", class: `service wide c${services.indexOf(span.service) % 6}` }, words(span.service)), cell,
      h("td", { class: "wide" }, span.error && badge(words(span.error).textContent, "bad")),
      h("td", { class: "num" }, duration(span.duration_ms)),
      h("td", { class: "bar-cell" }, svg("svg", { viewBox: `0 0 ${WIDTH} 12`, preserveAspectRatio: "none", class: "waterfall", role: "img", "aria-label": `from ${duration(span.start_ms)}, for ${duration(span.duration_ms)}` },
        svg("rect", { class: span.error ? "failed" : `c${services.indexOf(span.service) % 6}`, x: Math.min(from, WIDTH - 1.5), width: wide, height: 12, rx: 1 }))));
  });
  function showSpan(span) {
    detail.replaceChildren(section("Span", h("p", { class: "mono" }, words(span.name)),
      h("dl", { class: "facts" }, [["Service", span.service], ["Starts after", duration(span.start_ms)], ["Takes", duration(span.duration_ms)], ...(span.error ? [["Error", span.error]] : []), ...Object.entries(span.attributes)].map(([term, what]) => [h("dt", {}, words(term)), h("dd", { class: "mono" }, words(what))]))));
    detail.scrollIntoView({ block: "nearest" });
  }
  const template = app.me.trace_link;
  root.append(h("nav", { "aria-label": "Way here", class: "crumbs" }, link("#/traces", "Traces"), " / ", code(id)),
    h("h1", { class: "mono" }, words(trace.name)),
    h("p", { class: "row" }, trace.error ? badge(words(trace.error).textContent, "bad") : badge("ok", "ok"), `${duration(trace.duration_ms)}, ${count(trace.spans)} spans, ${ago(trace.start_ms)} ago`, template && h("a", { href: template.replace("{trace_id}", id), rel: "noreferrer", target: "_blank" }, "In the collector")),
    section("Waterfall", h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Spans" }, h("table", { class: "spans" }, h("caption", { class: "hidden" }, "Spans"),
      h("thead", {}, h("tr", {}, ["Service", "What", "Outcome", "Takes", "When"].map((name) => h("th", { scope: "col", class: { Takes: "num", Service: "wide", Outcome: "wide" }[name] }, name)))), h("tbody", {}, rows)))), detail);
  if (spans.length < trace.spans) root.append(h("p", { class: "muted" }, `The first ${count(spans.length)} spans are shown.`));
}
