// Attached servers: their state, tools, view and log; restart, approve, add and remove.

import { get, post } from "./api.js";
import { badge, block, code, confirmed, count, empty, failure, h, link, section, table, toast, words } from "./dom.js";
import { diff } from "./overview.js";

const STATES = { up: "ok", idle: "ok", starting: "warn", down: "bad" };
const state = (server) => badge(server.state, STATES[server.state] ?? "plain");
const href = (name) => `#/attached/${encodeURIComponent(name)}`;
const attempt = async (work, done) => { try { await work(); if (done) toast(done, "ok"); return true; } catch (error) { toast(error.message, "bad"); return false; } };

export function show(root, { parts }, app) {
  return parts[0] ? showServer(root, parts[0], app) : showAll(root, app);
}

function showAll(root, { live, me }) {
  const list = table("Attached servers", [
    { name: "Server", sign: (s) => s.name, cell: (s) => h("a", { href: href(s.name), "data-row": true }, words(s.name)) },
    { name: "State", cell: state },
    { name: "Target", class: "grow wide", cell: (s) => words(s.target) },
    { name: "Tools", class: "num", cell: (s) => count(s.tools ?? 0) },
    { name: "Held", class: "num", cell: (s) => (s.held ? badge(String(s.held), "warn") : "0") },
    { name: "Restarts", class: "num wide", cell: (s) => count(s.restarts ?? 0) },
  ], (s) => s.name, empty("No server is attached.", "Paste the JSON of a desktop program below: its servers become toolsets here."));
  const text = h("textarea", { id: "servers", rows: 5, class: "mono", spellcheck: "false", required: true,
    placeholder: '{"mcpServers": {"files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv"]}}}' });
  const mono = (id, more) => h(more.rows ? "textarea" : "input", { id, class: "mono", spellcheck: "false", ...more });
  const name = h("input", { id: "one-name", required: true, maxlength: 64, pattern: "[A-Za-z0-9_\\-]+", title: "Letters, digits, _ and -" });
  const target = mono("one-target", { required: true, placeholder: "https://mcp.example.org/mcp, or npx" });
  const args = mono("one-args", { rows: 2, placeholder: "-y" });
  const pairs = mono("one-pairs", { rows: 2, placeholder: "API_TOKEN=${API_TOKEN}" });
  const lines = (area) => area.value.split("\n").map((line) => line.trim()).filter(Boolean);
  const field = (label, input, help) => h("div", { class: "field" }, h("label", { for: input.id }, label), input, help && h("p", { class: "help" }, help));
  const one = () => {
    const given = Object.fromEntries(lines(pairs).map((line) => { const at = line.search(/[=:]/); return at > 0 ? [line.slice(0, at).trim(), line.slice(at + 1).trim()] : [line, ""]; }));
    const what = target.value.trim();
    return JSON.stringify({ mcpServers: { [name.value]: /^https?:\/\//.test(what) ? { url: what, headers: given } : { command: what, args: lines(args), env: given } } });
  };
  // A form that attaches what `read` returns, after a question.
  function adding(label, read, clear, ...fields) {
    const said = h("div", { "aria-live": "polite" });
    const button = h("button", { class: "main", disabled: !me.manages }, label);
    return h("form", { onsubmit: async (event) => {
      event.preventDefault();
      if (!(await confirmed("Attach these servers?", "A command runs on the machine of the stack, with its rights but for what its confinement takes away. Attach only what you trust.", "Attach"))) return;
      button.disabled = true;
      said.replaceChildren(h("p", { class: "muted" }, "Attaching …"));
      try {
        const { done = [], left_out: out = {} } = await post("attached", { action: "add", text: read() });
        said.replaceChildren(h("div", { class: "note ok" }, h("p", {}, done.length ? ["Attached: ", words(done.join(", ")), ". They start within seconds."] : "Nothing is new."),
          Object.entries(out).map(([server, why]) => h("p", {}, words(`${server}: ${why}`)))));
        clear.forEach((input) => { input.value = ""; });
      } catch (error) { said.replaceChildren(failure(error)); }
      button.disabled = !me.manages;
    } }, fields, h("div", { class: "row gap" }, button), said);
  }
  const forms = h("div", { class: "sides" },
    section("Attach a server", adding("Attach it", one, [name, target, args, pairs], field("Name", name), field("Address or program", target), field("Arguments of a program, one a line", args),
      field("Variables of a program, or headers of an address", pairs, "NAME=VALUE, one a line; ${NAME} is read from the stack's environment."))),
    section("Attach by JSON", adding("Attach", () => text.value, [text], field("JSON with mcpServers, as Claude Desktop, Cursor and VS Code have it", text)),
      h("p", { class: "muted" }, me.manages ? ["In a terminal: ", code("searchbus attach add NAME https://…")] : ["To change things, open this page by ", code("searchbus console"), "."])));
  const calls = h("div", { "aria-live": "polite" });
  root.append(h("h1", {}, "Attached"), section("Servers", list), ...(me.manages ? [section("Calls that wait", calls)] : []), forms);
  const draw = () => list.update(live.of("attached"));
  const drawCalls = () => showCalls(calls).catch((error) => calls.replaceChildren(failure(error)));
  draw();
  if (me.manages) drawCalls();
  const timer = me.manages ? setInterval(drawCalls, 5000) : 0;
  live.addEventListener("change", draw);
  return () => { clearInterval(timer); live.removeEventListener("change", draw); };
}

async function showCalls(root) {
  const { waiting = [] } = await post("attached", { action: "waiting" });
  const now = JSON.stringify(waiting);
  if (root.dataset.shown === now) return;  // what has the focus keeps it
  root.dataset.shown = now;
  const decide = (action, one, done) => h("button", { class: action === "allow" ? "main" : "bad", type: "button", onclick: async () => {
    if (await attempt(() => post("attached", { action, digits: [one.id] }), `The call of ${one.tool} is ${done}.`)) await showCalls(root).catch((error) => toast(error.message, "bad"));
  } }, action === "allow" ? "Approve" : "Refuse");
  root.replaceChildren(...(waiting.length ? waiting.map((one) => h("div", { class: "note warn" },
    h("p", {}, words(one.caller), " wants to call ", h("span", { class: "mono" }, words(`${one.server} ${one.tool}`)), ":"), block(one.arguments, "Arguments"),
    h("div", { class: "row gap" }, decide("allow", one, "approved"), decide("deny", one, "refused"))))
    : [empty("No call waits.", "Calls of tools that a view marks wait here until you approve them.")]));
}

// The view of a server as text, and what callers would see by it; only what was previewed is saved.
function viewEditor(ask, saved) {
  const text = h("textarea", { id: "view", rows: 8, class: "mono", dir: "ltr", spellcheck: "false", "aria-describedby": "view-help", oninput: () => { save.disabled = true; clearTimeout(timer); timer = setTimeout(preview, 400); },
    placeholder: 'allow = ["read_*"]\n\n[tools.read_file]\nname = "read"\ndescription = "Read a file of the handbook."\narguments = {root = "/srv/handbook"}' });
  const list = table("What callers see", [
    { name: "Tool", class: "name", cell: (t) => h("span", { class: "mono" }, words(t.name)) },
    { name: "Callers see", class: "grow", sign: (t) => JSON.stringify(t), cell: (t) => h("div", {}, t.listed_as ? h("div", {}, h("span", { class: "mono" }, words(`${t.listed_as}(${(t.arguments ?? []).join(", ")})`)), " ",
      (t.required_roles ?? []).map((role) => [badge(words(role), "warn"), " "]), h("div", { class: "muted passage" }, words([t.title, t.description].filter(Boolean).join(": ")))) : h("span", { class: "muted" }, "nothing"),
      t.changes?.length && h("ul", { class: "chips plain" }, t.changes.map((what) => h("li", {}, words(what))))) },
  ], (t) => t.name, empty("No tools are known.", "The server has not been asked yet, or offers none."));
  const said = h("span", { role: "status", class: "muted" });
  const faults = h("div", { "aria-live": "polite" });
  let timer, stamp = "", kept = "", asked = 0;
  function draw(view = {}) { // where no tool is known there is none in the reply
    list.update(view.tools ?? []);
    faults.replaceChildren(...(view.problems ?? []).map((problem) => h("div", { class: "note warn" }, words(problem))));
    const changed = view.changed ?? 0;
    said.textContent = text.value === kept ? "This is what callers see now." : `${changed ? `${count(changed)} ${changed === 1 ? "tool changes" : "tools change"}` : "No tool changes"}. Nothing is saved yet.`;
    if (view.more) said.textContent += ` ${count(view.more)} more tools are not shown here.`;
  }
  async function preview() {
    const [wanted, mine] = [text.value, ++asked];
    try {
      const found = await ask("preview", { text: wanted });
      if (mine !== asked || wanted !== text.value) return;
      stamp ||= found.stamp;
      draw(found.view);
      save.disabled = wanted === kept;
    } catch (error) { if (mine === asked) { said.textContent = ""; faults.replaceChildren(failure(error)); } }
  }
  // Reads the view that counts; a text that somebody is changing stays.
  async function read(anew, before = text.value) {
    if (!anew && text.value !== kept) return preview();
    const mine = ++asked;
    try {
      const found = await ask("view");
      if (found.text === before) [stamp, kept] = [found.stamp, before];
      if (mine !== asked) return undefined;
      if (text.value !== before) return preview(); // somebody began to change it meanwhile
      text.value = found.text ?? "";
      [stamp, kept] = [found.stamp, text.value];
      save.disabled = true;
      draw(found.view);
    } catch (error) {
      faults.replaceChildren(failure(error));
      // The service may be starting; nothing else would ask again.
      if (mine === asked && form.isConnected) { clearTimeout(timer); timer = setTimeout(() => read(anew, before), 3000); }
    }
    return undefined;
  }
  const save = h("button", { class: "main", disabled: true }, "Save the view");
  const form = h("form", { class: "below", onsubmit: async (event) => {
    event.preventDefault();
    save.disabled = true;
    const wanted = text.value;
    if (await attempt(() => ask("save_view", { text: wanted, digits: [stamp] }), "The view is saved.")) { await read(true, wanted); saved(); } else save.disabled = false;
  } }, h("label", { for: "view" }, "Keys of the view, as TOML"), text,
  h("p", { class: "help", id: "view-help" }, "allow and deny choose tools; a table of a tool gives it another name, title or description, fixes arguments, or asks for roles. Without a key all is shown."),
  h("div", { class: "row gap" }, save, h("button", { type: "button", onclick: () => read(true) }, "Read it again"), said));
  return { node: h("div", {}, form, faults, list), read };
}

async function showServer(root, name, { live, me }) {
  const ask = (action, more) => post("attached", { action, servers: [name], ...more });
  const facts = h("dl", { class: "facts" });
  const problem = h("div");
  const tools = table("Tools", [
    { name: "Tool", class: "name", cell: (t) => h("span", { class: "mono" }, words(t.name)) },
    { name: "Listed as", class: "grow", sign: (t) => t.listed_as + t.problem, cell: (t) => h("div", {}, t.listed_as ? h("a", { class: "mono", href: `#/catalogue/tool/${encodeURIComponent(t.listed_as)}` }, words(t.listed_as)) : h("span", { class: "muted" }, "not listed"),
      t.problem && h("div", { class: "muted" }, words(t.problem))) },
  ], (t) => t.name + (t.sha256 ?? ""), empty("No tools are known.", "The server has not been asked yet, or offers none."));
  const held = h("div");
  const log = h("div", {}, empty("Not read yet.", "What the command printed to standard error."));
  const off = !me.manages;
  const note = off ? "Open this page by: searchbus console" : undefined;
  let seen;
  async function draw(anew) {
    const { servers = [] } = await get("attached", { server: name });
    const [server] = servers;
    if (!server) { root.replaceChildren(h("h1", {}, words(name)), empty("This server is not attached any more.", link("#/attached", "All servers"))); return; }
    problem.replaceChildren(...(server.problem ? [h("div", { class: `note ${server.state === "down" ? "bad" : "warn"}` }, words(server.problem))] : []), ...(server.view_problems ?? []).map((p) => h("div", { class: "note warn" }, words(p))));
    facts.replaceChildren(...[["State", state(server)], ["Target", words(server.target)], ["Says it is", words(server.server_info || "–")], ["Protocol", words(server.protocol || "–")],
      ["Tools", count(server.tools ?? 0)], ["Prompts", count(server.prompts ?? 0)], ["Resources", count(server.resources ?? 0)], ["Calls now", count(server.in_flight ?? 0)], ["Restarts", count(server.restarts ?? 0)], ["Dropped messages", count(server.dropped ?? 0)]]
      .flatMap(([term, what]) => [h("dt", {}, term), h("dd", {}, what)]));
    tools.update(server.tool_list ?? []);
    const now = JSON.stringify([server.tool_list, server.view_problems]);
    if (!off && (now !== seen || anew)) view.read();
    seen = now;
    if (!off) await drawHeld();
    else held.replaceChildren(server.held ? h("p", {}, `${server.held} definitions changed. To read them, open this page by `, code("searchbus console"), ".") : empty("Nothing differs from what was approved.", "A definition that the server changes waits here."));
  }
  async function drawHeld() {
    const { held: found = [] } = await ask("diff");
    const now = JSON.stringify(found);
    if (held.dataset.shown === now) return;  // what has the focus keeps it, what was opened stays open
    held.dataset.shown = now;
    const key = (one) => `${one.digits} ${one.refused}`;  // one that was refused is folded
    const opened = [...held.querySelectorAll("details[open]")].map((one) => one.dataset.key);
    const decide = (action, one, done) => h("button", { class: action === "approve" ? "main" : "bad", type: "button", onclick: async () => {
      if (await attempt(() => ask(action, { digits: [one.digits] }), `${one.name} is ${done}.`)) setTimeout(() => draw().catch(() => {}), 1500);
    } }, action === "approve" ? "Approve" : "Refuse");
    const waiting = found.filter((one) => !one.refused);
    held.replaceChildren(...(found.length ? found : [null]).map((one) => (one ? h("details", { "data-key": key(one), open: opened.includes(key(one)) || (waiting.length === 1 && one === waiting[0]) },
      h("summary", {}, h("span", { class: "mono" }, words(one.name)), " ", words(one.reasons.join("; ")), " ", one.refused && badge("refused", "bad")), diff(one.lines),
      h("div", { class: "row gap" }, decide("approve", one, "approved"), !one.refused && decide("refuse", one, "refused"),
        h("span", { class: "muted" }, one.refused ? "Calls are refused. A later change waits again." : "Refused, it waits for nobody, and calls stay refused.")))
      : empty("Nothing differs from what was approved.", "A definition that the server changes waits here."))));
  }
  const view = viewEditor(ask, () => setTimeout(() => draw(true).catch(() => {}), 1500));
  const readLog = async () => {
    try { const { log: text } = await ask("log"); log.replaceChildren(text ? block(text, "Standard error") : empty("It has printed nothing.", "Standard error of the command is kept in the data folder.")); } catch (error) { log.replaceChildren(failure(error)); }
  };
  root.append(h("nav", { "aria-label": "Way here", class: "crumbs" }, link("#/attached", "Attached"), " / ", words(name)), h("h1", {}, words(name)), problem,
    h("div", { class: "row actions" },
      h("button", { type: "button", disabled: off, title: note, onclick: async () => { if (await attempt(() => ask("restart"), `${name} starts anew.`)) setTimeout(() => draw().catch(() => {}), 1500); } }, "Restart"),
      h("button", { type: "button", disabled: off, title: note, onclick: readLog }, "Read its log"),
      h("button", { type: "button", class: "bad", disabled: off, title: note, onclick: async () => {
        if (!(await confirmed(`Remove ${name}?`, "Its tools are not listed any more, and its entry leaves the file of servers.", "Remove it"))) return;
        if (await attempt(() => ask("remove"), `${name} is removed.`)) location.hash = "#/attached";
      } }, "Remove")),
    h("div", { class: "columns" }, h("div", {}, section("Changes", held), section("Tools", tools)), h("div", {}, section("State", facts), section("Log", log))),
    section("What callers see", off ? empty("A view chooses, renames and limits the tools of a server.", "To edit it, open this page by ", code("searchbus console"), ".") : view.node));
  await draw();
  let last = JSON.stringify(live.state.get(`attached/${name}`));
  const changed = () => {
    const now = JSON.stringify(live.state.get(`attached/${name}`));
    if (now !== last) { last = now; draw().catch((error) => toast(error.message, "bad")); }
  };
  live.addEventListener("change", changed);
  return () => live.removeEventListener("change", changed);
}
