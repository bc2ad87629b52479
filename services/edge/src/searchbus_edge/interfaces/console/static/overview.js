// What runs, what is slow, who is blocked, what waits for a person.

import { get, post } from "./api.js";
import { ago, badge, code, copyButton, count, duration, empty, h, left, link, section, table, toast, words } from "./dom.js";

const STATES = { closed: ["in use", "ok"], open: ["blocked", "bad"], suspected: ["in doubt", "warn"] };
const KINDS = { held: "held", attached_held: "held", failed: "failed", sign_in: "sign-in", away: "away", key: "key", file: "file" };

function state(part) {
  const [text, kind] = STATES[part.state] ?? [part.state || "in use", "ok"];
  const rest = part.until_ms > Date.now() && part.state !== "closed" ? ` ${left(part.until_ms)}` : "";
  return h("span", {}, badge(text, kind), rest);
}

function merged(instances, kind) {
  const found = new Map();
  for (const instance of instances) {
    for (const part of instance.parts ?? []) {
      if (part.kind !== kind) continue;
      const known = found.get(part.name) ?? { name: part.name, state: "", until_ms: 0, numbers: {} };
      for (const [name, value] of Object.entries(part.numbers ?? {})) known.numbers[name] = (known.numbers[name] ?? 0) + value;
      if (!known.state || part.state === "open" || (part.state === "suspected" && known.state === "closed")) {
        known.state = part.state ?? "";
        known.until_ms = part.until_ms ?? 0;
      }
      found.set(part.name, known);
    }
  }
  return [...found.values()].sort((a, b) => a.name.localeCompare(b.name));
}

function load(instance) {
  if (instance.answers === false) return badge("no answer", "bad");
  const { in_flight: now = 0, limit } = instance;
  return h("span", { class: "load" },
    h("meter", { min: 0, max: 1, high: 0.8, value: limit ? now / limit : 0, "aria-label": `${now} of ${limit} requests` }),
    ` ${now} of ${limit}`);
}

async function review(wait, app) {
  const { name, lines } = await get("held", { digits: wait.digits });
  const decide = (approved) => async () => {
    try {
      await post("held", { digits: wait.digits, approved });
      toast(`${name} is ${approved ? "approved" : "refused"}.`, "ok");
      dialog.close();
    } catch (error) { toast(error.message, "bad"); }
  };
  const off = { type: "button", disabled: !app.me.manages, title: app.me.manages ? undefined : "Open this page by: searchbus console" };
  const dialog = h("dialog", { class: "big", "aria-label": `Change of ${name}`, onclose: () => dialog.remove() },
    h("h2", {}, "Change of ", words(name)),
    h("p", {}, "Its service describes it in another way than was approved. Read it as text of strangers."),
    diff(lines),
    h("div", { class: "row end" },
      h("button", { type: "button", onclick: () => dialog.close() }, "Decide later"),
      h("button", { ...off, class: "bad", onclick: decide(false) }, "Refuse this change"),
      h("button", { ...off, class: "main", onclick: decide(true) }, "Approve this change")));
  document.body.append(dialog);
  dialog.showModal();
}

export function diff(lines) {
  return h("pre", { class: "diff", tabindex: 0, "aria-label": "Difference" }, lines.map((line) => {
    const kind = line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : line.startsWith("@") ? "at" : "";
    return h("span", { class: kind, dir: "auto" }, words(line), "\n");
  }));
}

function action(wait, app) {
  if (wait.kind === "held") {
    return h("button", { class: "main small", "data-row": true, onclick: () => review(wait, app).catch((e) => toast(e.message, "bad")) }, "Review");
  }
  if (wait.kind === "attached_held" || wait.kind === "failed") return h("a", { href: `#/attached/${encodeURIComponent(wait.name)}`, "data-row": true }, "Look at it");
  if (!wait.command) return h("span");
  const button = copyButton(() => wait.command, "Copy command");
  button.setAttribute("data-row", "");
  return button;
}

export function show(root, _, app) {
  const { live, me } = app;
  root.append(h("h1", {}, "Overview"));
  if (!me.sees) {
    root.append(empty("This page is for operators.", "It asks for the role ", code(me.role), ". Your tools are in the ", link("#/catalogue", "catalogue"), "."));
    return undefined;
  }
  const waits = table("Waits for you", [
    { name: "What", cell: (w) => badge(KINDS[w.kind] ?? w.kind, w.kind === "away" || w.kind === "failed" ? "bad" : "warn") },
    { name: "Why", class: "grow", cell: (w) => words(w.text) },
    { name: "Action", class: "end", sign: (w) => w.kind + w.digits + w.command, cell: (w) => action(w, app) },
  ], (w) => `${w.kind}/${w.digits || w.name}`, empty("Nothing waits for you.", "Held changes, failed servers and expired sign-ins appear here."));
  const services = table("Services", [
    { name: "Service", cell: (i) => i.service },
    { name: "Instance", class: "wide", cell: (i) => h("span", { class: "mono muted" }, i.instance.slice(0, 10)) },
    { name: "Version", class: "wide", cell: (i) => i.version || "–" },
    { name: "Load", sign: (i) => `${i.answers}${i.in_flight}/${i.limit}`, cell: load },
    { name: "Queue", class: "num", cell: (i) => count(i.waiting ?? 0) },
    { name: "Refused", class: "num", cell: (i) => count(i.shed ?? 0) },
    { name: "Up for", class: "num", cell: (i) => (i.started_ms ? ago(i.started_ms) : "–") },
  ], (i) => `${i.service}/${i.instance}`, empty("No service answers.", "Look at the log: ", code("searchbus doctor")));
  const parts = (title, columns, none) => {
    const shown = table(title, [{ name: "Name", cell: (p) => words(p.name) }, ...columns], (p) => p.name, empty(none[0], none[1]));
    return { shown, card: section(title, shown) };
  };
  const rate = (p, hit) => { const all = Object.values(p.numbers).reduce((a, b) => a + b, 0); return all ? `${Math.round((100 * (p.numbers[hit] ?? 0)) / all)} %` : "–"; };
  const cards = {
    egress: parts("Egress addresses", [
      { name: "State", sign: (p) => `${p.state}${left(p.until_ms)}`, cell: state },
      { name: "Queue", class: "num", cell: (p) => count(p.numbers.waiting ?? 0) },
      { name: "Interval", class: "num", cell: (p) => `${(p.numbers.interval_s ?? 0).toFixed(1)} s` },
    ], ["No egress address.", "They appear with the service ddg."]),
    key: parts("Provider keys", [{ name: "State", sign: (p) => `${p.state}${left(p.until_ms)}`, cell: state },
      { name: "Credits since start", class: "num", cell: (p) => (p.numbers.credits ?? 0).toFixed(1) }],
      ["No provider key.", "Add one: searchbus init --yes --web-key brave"]),
    breaker: parts("Breakers", [{ name: "State", sign: (p) => `${p.state}${left(p.until_ms)}`, cell: state },
      { name: "Timeouts", class: "num", cell: (p) => count(p.numbers.timeouts_in_a_row ?? 0) }], ["No breaker.", "They appear with web search."]),
    upstream: parts("Upstreams", [
      { name: "Requests", class: "num", cell: (p) => count((p.numbers.ok ?? 0) + (p.numbers.failed ?? 0)) },
      { name: "Failed", class: "num", cell: (p) => count(p.numbers.failed ?? 0) },
      { name: "Mean", class: "num", cell: (p) => duration((1000 * (p.numbers.seconds ?? 0)) / Math.max(1, (p.numbers.ok ?? 0) + (p.numbers.failed ?? 0))) },
    ], ["No request was sent.", "Search the web once, and its upstreams are here."]),
    cache: parts("Caches", [
      { name: "Lookups", class: "num", cell: (p) => count(Object.values(p.numbers).reduce((a, b) => a + b, 0)) },
      { name: "Hits", class: "num", cell: (p) => rate(p, "hit") },
    ], ["No cache was read.", "Caches appear with the first search."]),
    limit: parts("Limits", [
      { name: "Admitted", class: "num", cell: (p) => count(p.numbers.admitted ?? 0) },
      { name: "Refused", class: "num", cell: (p) => count(p.numbers.refused ?? 0) },
    ], ["No limit was asked.", "Counts appear with the first call."]),
  };
  const limits = h("p", { class: "muted" }, "Per caller: ", Object.entries(me.limits)
    .map(([name, [rate, burst]]) => `${name} ${rate ? `${rate} a second, ${count(burst)} at once` : "without a limit"}`).join("; "), ".");
  cards.limit.card.append(limits);
  const attached = table("Attached servers", [
    { name: "Server", sign: (s) => s.name, cell: (s) => link(`#/attached/${encodeURIComponent(s.name)}`, words(s.name)) },
    { name: "State", cell: (s) => badge(s.state, s.state === "down" ? "bad" : s.state === "starting" ? "warn" : "ok") },
    { name: "Tools", class: "num", cell: (s) => count(s.tools ?? 0) },
    { name: "Calls now", class: "num", cell: (s) => count(s.in_flight ?? 0) },
  ], (s) => s.name, empty("No server is attached.", "Add one on the page ", link("#/attached", "Attached"), "."));
  root.append(section("Waits for you", waits), section("Services", services),
    h("div", { class: "grid" }, Object.values(cards).map((c) => c.card), section("Attached servers", attached)));

  const draw = () => {
    waits.update(live.of("wait"));
    const instances = live.of("instance").sort((a, b) => a.service.localeCompare(b.service) || a.instance.localeCompare(b.instance));
    services.update(instances);
    for (const [kind, { shown }] of Object.entries(cards)) shown.update(merged(instances, kind));
    attached.update(live.of("attached"));
  };
  draw();
  live.addEventListener("change", draw);
  const clock = setInterval(draw, 1000); // what is left of a cooldown
  return () => { live.removeEventListener("change", draw); clearInterval(clock); };
}
