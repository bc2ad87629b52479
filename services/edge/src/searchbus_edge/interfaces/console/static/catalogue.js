// Every tool, prompt and resource that the caller may use, each with the form that uses it.

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
  if (kind === "tool") about.append(h("p", { class: "muted" }, link(`#/traces?text=${encodeURIComponent(name)}`, "Its calls in the traces")));
  const schemas = section("Schemas", ["inputSchema", "outputSchema", "annotations", "arguments"].filter((part) => shown[part]).map((part) =>
    h("details", {}, h("summary", {}, { inputSchema: "Arguments", outputSchema: "Result", annotations: "Annotations", arguments: "Arguments" }[part]), block(json(shown[part]), part))));
  const call = new Call(kind, name, shown, app);
  root.append(h("div", { class: "columns" }, h("div", {}, section(USES[kind].title, call.node), section("Answer", call.answer)), h("div", {}, about, schemas.children.length > 1 && schemas)));
  return () => call.stop();
}

// A form's schema of fields that are texts: [{name, description, required}].
const texts = (fields) => ({ properties: Object.fromEntries(fields.map((f) => [f.name, { type: "string", description: f.description }])), required: fields.filter((f) => f.required).map((f) => f.name), additionalProperties: false });

// The variables of a URI template of RFC 6570, and the URI with their values.
const EXPRESSION = /\{([+#./;?&]?)([^{}]+)\}/g;
const NAMED = ["?", "&", ";"];
const names = (list) => list.split(",").map((name) => name.replace(/\*$|:\d+$/, ""));
const variables = (template) => [...template.matchAll(EXPRESSION)].flatMap(([, sign, list]) => names(list).map((name) => ({ name, required: !NAMED.includes(sign) })));
const expanded = (template, values) => template.replace(EXPRESSION, (_, sign, list) => {
  const encode = sign === "+" || sign === "#" ? encodeURI : encodeURIComponent;
  const given = names(list).filter((name) => values[name] !== undefined).map((name) => (NAMED.includes(sign) ? `${name}=` : "") + encode(values[name]));
  const between = sign === "?" ? "&" : ["&", ";", "/", "."].includes(sign) ? sign : ",";
  return given.length ? (sign === "+" ? "" : sign) + given.join(between) : "";
});

// How each kind is used: the form's schema, the request, and the parts of its result.
const USES = {
  tool: {
    title: "Call it", label: "Call", path: "call", hint: "Fill in the form and call the tool.",
    schema: (shown) => shown.inputSchema, body: (name, _, values) => ({ name, arguments: values }),
    parts: (data) => [data.structured && block(json(data.structured), "Structured result"), contents(data.content)],
  },
  prompt: {
    title: "Fill it in", label: "Fill in", path: "prompt", hint: "Fill in the form to see the messages that a model gets.",
    schema: (shown) => texts(shown.arguments ?? []), body: (name, _, values) => ({ name, arguments: values }),
    parts: (data) => data.messages.map((m) => [h("h3", {}, words(m.role)), contents([m.content])]),
  },
  resource: {
    title: "Read it", label: "Read", path: "resource", hint: "Read it to see its content.",
    schema: (shown) => texts(variables(shown.uriTemplate ?? "")), body: (name, shown, values) => ({ uri: shown.uriTemplate ? expanded(name, values) : name }),
    parts: (data) => data.contents.map((c) => [h("h3", { class: "mono" }, words(c.uri)),
      h("p", { class: "muted" }, words(`${c.mimeType ?? "no media type"}, ${c.blob === undefined ? `${count((c.text ?? "").length)} characters` : `${count(Math.floor((c.blob.length * 3) / 4))} bytes`}`)), c.text !== undefined && block(c.text, "Text")]),
  },
};

function contents(all = []) {
  const others = all.filter((c) => c.type !== "text");
  return [all.filter((c) => c.type === "text").map((c) => block(c.text, "Text")), others.length > 0 && block(json(others), "Other content")];
}

// A form, and what a call with it sends and receives.
class Call {
  constructor(kind, name, shown, app) {
    this.use = USES[kind];
    this.body = (values) => this.use.body(name, shown, values);
    this.app = app;
    this.form = schemaForm(this.use.schema(shown));
    this.button = h("button", { class: "main" }, this.use.label);
    this.cancel = h("button", { type: "button", disabled: true, onclick: () => this.stop() }, "Stop");
    this.node = h("form", { novalidate: false, onsubmit: (event) => { event.preventDefault(); this.run(); },
      onkeydown: (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.node.requestSubmit(); } } },
    this.form.node, h("div", { class: "row" }, this.button, this.cancel, h("span", { class: "muted" }, "Ctrl Enter")));
    this.answer = h("div", { "aria-live": "polite", "aria-busy": "false" }, empty("No answer yet.", this.use.hint));
  }

  stop() { this.running?.abort(); }

  async run() {
    let body;
    try { body = this.body(this.form.read()); } catch (error) { this.answer.replaceChildren(failure(error)); return; }
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
      await events(this.use.path, { body, signal: this.running.signal, onevent: (kind, data) => {
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
    const meta = data.meta ?? data._meta;
    return [head, this.use.parts(data), meta && h("details", {}, h("summary", {}, "Meta"), block(json(meta), "Meta"))].flat(Infinity).filter(Boolean);
  }
}
