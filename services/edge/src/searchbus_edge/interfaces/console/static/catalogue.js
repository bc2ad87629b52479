// Every tool, prompt and resource that the caller may use; a tool is called by its form.

import { events, get } from "./api.js";
import { badge, block, code, count, duration, empty, failure, h, json, link, section, table, words } from "./dom.js";
import { schemaForm } from "./form.js";

const KINDS = [["tool", "Tools"], ["prompt", "Prompts"], ["resource", "Resources"]];
const PAGE = 100;
const href = (kind, name) => `#/catalogue/${kind}/${encodeURIComponent(name)}`;

export async function show(root, { parts, query }, app) {
  const [kind = "tool", name] = parts;
  if (name !== undefined) return showEntry(root, kind, name, app);
  let offset = 0, generation, running;
  const filter = h("input", { type: "search", "data-search": true, "aria-label": "Filter by name and title", placeholder: "Filter by name  /", value: query.get("text") ?? "", oninput: () => { offset = 0; draw(); } });
  const toolset = h("select", { "aria-label": "Toolset", onchange: () => { offset = 0; draw(); } }, h("option", { value: "" }, "All toolsets"),
    app.me.toolsets.map((t) => h("option", { value: t, selected: t === query.get("toolset") }, t)));
  const list = table("Catalogue", [
    { name: "Name", class: "name", sign: (e) => e.name, cell: (e) => h("a", { href: href(kind, e.name), "data-row": true, class: "mono" }, words(e.name)) },
    { name: "What it does", class: "grow", cell: (e) => words(e.title || e.line) },
    { name: "Toolset", class: "wide", cell: (e) => words(e.toolset) },
    { name: "Notes", class: "end wide", sign: (e) => `${e.held}${e.costly}${e.read_only}`, cell: (e) => h("span", { class: "row" }, e.held && badge("held", "warn"), e.costly && badge("costs money", "warn"), kind === "tool" && !e.read_only && badge("may write")) },
  ], (e) => e.name, empty("Nothing matches.", "Use fewer words, or another toolset."));
  const pager = h("div", { class: "row pager" });
  const fault = h("div");
  async function draw() {
    running?.abort();
    running = new AbortController();
    try {
      const found = await get("catalogue", { kind, toolset: toolset.value, text: filter.value, offset }, running.signal);
      list.update(found.entries);
      const end = offset + found.entries.length;
      pager.replaceChildren(h("span", { role: "status" }, found.total ? `${count(offset + 1)}–${count(end)} of ${count(found.total)}` : ""),
        h("button", { disabled: !offset, onclick: () => { offset = Math.max(0, offset - PAGE); draw(); } }, "Previous"),
        h("button", { disabled: end >= found.total, onclick: () => { offset = end; draw(); } }, "Next"));
      fault.replaceChildren();
    } catch (error) { if (error.name !== "AbortError") fault.replaceChildren(failure(error)); }
  }
  root.append(h("h1", {}, "Catalogue"),
    h("div", { class: "row tools" },
      h("div", { class: "tabs" }, KINDS.map(([k, title]) => h("a", { href: `#/catalogue/${k}`, "aria-current": k === kind ? "page" : undefined }, title))), filter, toolset),
    fault, list, pager);
  await draw();
  const changed = () => {
    const now = app.live.state.get("catalogue");
    if (generation !== undefined && now !== generation) draw();
    generation = now;
  };
  changed();
  app.live.addEventListener("change", changed);
  return () => { app.live.removeEventListener("change", changed); running?.abort(); };
}

async function showEntry(root, kind, name, app) {
  const found = await get("entry", { kind, name });
  const { shown } = found;
  const facts = [["Toolset", words(found.toolset)], ["Service", words(found.service || "the edge")], ["Own name", code(found.own_name)],
    ["Roles", found.required_roles.length ? words(found.required_roles.join(", ")) : "none"],
    ["Results", found.untrusted ? "with text of others" : "its own"], ["Limit", found.timeout_ms ? duration(found.timeout_ms) : "–"]];
  root.append(h("nav", { "aria-label": "Way here", class: "crumbs" }, link(`#/catalogue/${kind}`, "Catalogue"), " / ", words(kind)),
    h("h1", { class: "mono" }, words(name)), shown.title && h("p", { class: "lead" }, words(shown.title)));
  if (found.held) root.append(h("div", { class: "note warn" }, "Calls are refused: ", words(found.held), ". ", link("#/overview", "Review the change")));
  const about = section("About", h("p", { class: "prose" }, words(shown.description ?? "")),
    h("dl", { class: "facts" }, facts.map(([term, what]) => [h("dt", {}, term), h("dd", {}, what)])));
  const schemas = section("Schemas", ["inputSchema", "outputSchema", "annotations", "arguments"].filter((part) => shown[part]).map((part) =>
    h("details", {}, h("summary", {}, { inputSchema: "Arguments", outputSchema: "Result", annotations: "Annotations", arguments: "Arguments" }[part]), block(json(shown[part]), part))));
  if (kind !== "tool") {
    root.append(h("div", { class: "columns" }, about, schemas));
    return undefined;
  }
  const call = new Call(name, shown.inputSchema, app);
  root.append(h("div", { class: "columns" }, h("div", {}, section("Call it", call.node), section("Answer", call.answer)), h("div", {}, about, schemas)));
  return () => call.stop();
}

// A form, and what a call with it sends and receives.
class Call {
  constructor(name, schema, app) {
    this.name = name;
    this.app = app;
    this.form = schemaForm(schema);
    this.button = h("button", { class: "main" }, "Call");
    this.cancel = h("button", { type: "button", disabled: true, onclick: () => this.stop() }, "Stop");
    this.node = h("form", { novalidate: false, onsubmit: (event) => { event.preventDefault(); this.run(); },
      onkeydown: (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.node.requestSubmit(); } } },
    this.form.node, h("div", { class: "row" }, this.button, this.cancel, h("span", { class: "muted" }, "Ctrl Enter")));
    this.answer = h("div", { "aria-live": "polite", "aria-busy": "false" }, empty("No answer yet.", "Fill in the form and call the tool."));
  }

  stop() { this.running?.abort(); }

  async run() {
    let body;
    try { body = { name: this.name, arguments: this.form.read() }; } catch (error) { this.answer.replaceChildren(failure(error)); return; }
    this.running = new AbortController();
    const began = performance.now();
    const log = h("ol", { class: "events" });
    const result = h("div");
    this.button.disabled = true;
    this.cancel.disabled = false;
    this.answer.setAttribute("aria-busy", "true");
    this.answer.replaceChildren(h("details", {}, h("summary", {}, "Request"), block(json(body), "Request")), log, result);
    const at = () => duration(performance.now() - began);
    try {
      await events("call", { body, signal: this.running.signal, onevent: (kind, data) => {
        if (kind === "progress") log.append(h("li", {}, badge(at()), " ", data.total ? h("progress", { max: data.total, value: data.progress, "aria-label": "Progress" }) : `${data.progress} `, words(data.message ?? "")));
        else if (kind === "log") log.append(h("li", {}, badge(at()), " ", badge(data.level ?? "log"), " ", words(typeof data.data === "string" ? data.data : json(data.data))));
        else result.replaceChildren(...this.outcome(kind, data, at()));
      } });
    } catch (error) {
      result.replaceChildren(error.name === "AbortError" ? h("p", {}, "Stopped.") : failure(error));
    }
    this.button.disabled = false;
    this.cancel.disabled = true;
    this.answer.setAttribute("aria-busy", "false");
  }

  outcome(kind, data, time) {
    const { trace_id: id } = data;
    const template = this.app.me.trace_link;
    const trace = /^0*$/.test(id ?? "") ? null : template ? h("a", { href: template.replace("{trace_id}", id), rel: "noreferrer", target: "_blank" }, "Trace") : this.app.me.sees ? link(`#/traces/${id}`, "Trace") : code(id);
    const head = h("p", { class: "row" }, badge(kind === "result" ? "ok" : data.code, kind === "result" ? "ok" : "bad"), time, trace);
    if (kind !== "result") return [head, failure({ message: data.detail })];
    const texts = (data.content ?? []).filter((c) => c.type === "text").map((c) => block(c.text, "Text"));
    const others = (data.content ?? []).filter((c) => c.type !== "text");
    return [head, data.structured && block(json(data.structured), "Structured result"), texts, others.length && block(json(others), "Other content"),
      data.meta && h("details", {}, h("summary", {}, "Meta"), block(json(data.meta), "Meta"))].flat().filter(Boolean);
  }
}
