// What a client needs: its entry, a key, and a line when it arrives.

import { get, post } from "./api.js";
import { ago, badge, block, code, confirmed, copyButton, empty, failure, h, section, table, toast, words } from "./dom.js";

const KEY = "YOUR_KEY";

export async function show(root, { query }, app) {
  const { me, live } = app;
  let key = "";
  const began = Date.now();
  const choice = h("select", { id: "endpoint", onchange: () => draw() },
    h("option", { value: "" }, "/mcp – everything you may use"),
    me.toolsets.map((name) => h("option", { value: name, selected: name === query.get("toolset") }, `/mcp/${name}`)));
  const address = h("div", { class: "row gap" });
  const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Program" });
  const shown = h("div", { role: "tabpanel", id: "snippet", tabindex: 0, "aria-labelledby": "" });
  let chosen = localStorage.getItem("searchbus.program") ?? "";
  let found = null;

  function drawSnippet() {
    const one = found.snippets.find((s) => s.program === chosen) ?? found.snippets[0];
    chosen = one.program;
    tabs.replaceChildren(...found.snippets.map((s) => h("button", {
      role: "tab", id: `tab-${s.program}`, type: "button", "aria-selected": String(s === one), "aria-controls": "snippet", tabindex: s === one ? 0 : -1,
      onclick: () => { chosen = s.program; localStorage.setItem("searchbus.program", chosen); drawSnippet(); document.getElementById(`tab-${s.program}`).focus(); },
      onkeydown: (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const all = [...tabs.children];
        all[(all.indexOf(event.target) + step + all.length) % all.length].click();
      },
    }, s.title)));
    shown.setAttribute("aria-labelledby", `tab-${one.program}`);
    shown.replaceChildren(h("p", { class: "muted" }, one.where), block(key ? one.text.replaceAll(KEY, key) : one.text, `Entry for ${one.title}`));
  }

  async function draw() {
    try {
      found = await get("connect", { toolset: choice.value });
      address.replaceChildren(code(found.url), copyButton(() => found.url));
      drawSnippet();
    } catch (error) { shown.replaceChildren(failure(error)); }
  }

  const arrivals = table("Clients that arrived", [
    { name: "Client", class: "grow", cell: (a) => words(a.program || "unnamed") },
    { name: "Endpoint", cell: (a) => code(a.endpoint) },
    { name: "Caller", cell: (a) => words(a.caller) },
    { name: "When", class: "num", cell: (a) => `${ago(a.at_ms)} ago` },
  ], (a) => a.id, empty("Waiting for a client …", "Start the program: it appears here with its first request."));
  root.append(h("h1", {}, "Connect"),
    section("Endpoint", h("label", { for: "endpoint" }, "What the client gets"), h("div", { class: "row" }, choice), address, tabs, shown));
  if (me.mode === "static" && me.sees) root.append(await keys());
  else root.append(section("Key", h("p", {}, me.mode === "none" ? "No key is needed: this edge asks nobody to sign in."
    : me.mode === "jwt" ? "Clients sign in at your identity provider; they find it by themselves."
      : "Ask an operator for a key.")));
  const line = h("p", { role: "status" });
  if (me.sees) root.append(section("Arrivals", line, arrivals));
  await draw();

  async function keys() {
    const name = h("input", { id: "key-name", required: true, maxlength: 100, placeholder: "laptop" });
    const roles = h("input", { id: "key-roles", placeholder: "MCP-WEB-SEARCH, …", "aria-describedby": "roles-help" });
    const days = h("input", { id: "key-days", type: "number", min: 0, max: 3660, value: "90" });
    const made = h("div");
    const seen = h("div");
    const split = () => roles.value.split(/[\s,]+/).filter(Boolean);
    const list = table("Keys", [
      { name: "Name", cell: (k) => words(k.name) },
      { name: "Id", cell: (k) => code(k.id) },
      { name: "Roles", class: "grow", cell: (k) => words(
        [k.roles.join(", ") || "none", ...k.endpoints.map((name) => `only at /mcp/${name}`)].join("; ")) },
      { name: "Until", cell: (k) => (k.expires_s ? new Date(k.expires_s * 1000).toISOString().slice(0, 10) : "no end") },
      { name: "Action", class: "end", sign: (k) => k.id, cell: (k) => h("span", { class: "row" },
        h("button", { class: "small", "data-row": true, onclick: () => see(k.roles, `the key ${k.name}`) }, "What it sees"),
        me.manages && h("button", { class: "small bad", onclick: async () => {
          if (!(await confirmed("Revoke this key?", `Programs with the key ${k.name} are refused within a second.`, "Revoke it"))) return;
          try { await post("keys/revoke", { id: k.id }); await refresh(); } catch (error) { toast(error.message, "bad"); }
        } }, "Revoke")) },
    ], (k) => k.id, empty("There is no key.", "Make one above, or by: ", code("searchbus keys add NAME")));
    async function refresh() { list.update((await get("keys")).keys); }
    async function see(wanted, who) {
      try {
        const { total, tools } = await post("seen", { roles: wanted });
        seen.replaceChildren(h("h3", {}, `What ${who} sees`), h("p", {}, `${total} tools${total > tools.length ? `, of which ${tools.length} are shown` : ""}`),
          h("ul", { class: "chips" }, tools.map((tool) => h("li", {}, words(tool.name)))));
      } catch (error) { seen.replaceChildren(failure(error)); }
    }
    await refresh();
    return section("Keys", me.manages && h("form", { class: "fields", onsubmit: async (event) => {
      event.preventDefault();
      try {
        const answer = await post("keys", { name: name.value, roles: split(), days: Number(days.value) });
        key = answer.key;
        made.replaceChildren(h("div", { class: "note ok" }, h("p", {}, "This key is shown once, and stands in the entry above until you leave this page."), block(key, "The new key")));
        drawSnippet();
        await refresh();
      } catch (error) { made.replaceChildren(failure(error)); }
    } },
    h("div", {}, h("label", { for: "key-name" }, "Name"), name), h("div", { class: "grow" }, h("label", { for: "key-roles" }, "Roles"), roles),
    h("div", {}, h("label", { for: "key-days" }, "Days, 0 for no end"), days),
    h("div", { class: "row" }, h("button", { class: "main" }, "Make a key"), h("button", { type: "button", onclick: () => see(split(), "a key with these roles") }, "What would it see?"))),
    h("p", { id: "roles-help", class: "muted" }, "Roles are separated by commas. A tool is listed to whoever has all of its roles; * is every role."), made, list, seen);
  }

  const update = () => {
    const all = live.of("client").sort((a, b) => b.at_ms - a.at_ms);
    arrivals.update(all);
    const latest = all.find((a) => a.at_ms > began);
    const text = latest ? `${latest.program || "A client"} arrived at ${latest.endpoint}.` : "";
    if (line.textContent !== text) line.replaceChildren(latest ? h("span", {}, badge("arrived", "ok"), " ", words(text)) : "");
  };
  update();
  live.addEventListener("change", update);
  const clock = setInterval(update, 5000);
  return () => { live.removeEventListener("change", update); clearInterval(clock); };
}
