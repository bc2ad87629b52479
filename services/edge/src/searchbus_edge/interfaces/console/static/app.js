// Starts the page: who calls, navigation, keys of the keyboard.

import { Live, credentials, get } from "./api.js";
import { badge, failure, h } from "./dom.js";

const PAGES = [
  ["overview", "Overview", "o"],
  ["connect", "Connect", "c"],
  ["catalogue", "Catalogue", "t"],
  ["search", "Search", "s"],
  ["documents", "Documents", "d"],
  ["traces", "Traces", "r", true],
  ["attached", "Attached", "a", true],
];
const SHORTCUTS = "searchbus.shortcuts";
const main = document.getElementById("main");
const app = { live: new Live(), me: null };
let leave = null, turn = 0;

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [page, ...parts] = path.split("/").map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  return { page: page || "overview", parts, query: new URLSearchParams(query) };
}

async function show() {
  const mine = ++turn, wanted = route();
  const page = PAGES.find(([name]) => name === wanted.page) ?? PAGES[0];
  for (const a of document.querySelectorAll("#nav a")) a.toggleAttribute("aria-current", a.dataset.page === page[0]);
  document.querySelectorAll("#nav a[aria-current]").forEach((a) => a.setAttribute("aria-current", "page"));
  document.querySelector("#nav a[aria-current]")?.scrollIntoView({ inline: "nearest", block: "nearest" });
  document.title = `${page[1]} · searchbus`;
  leave?.();
  leave = null;
  const root = h("div", { class: `page ${page[0]}` });
  try {
    const module = await import(`./${page[0]}.js`);
    if (mine !== turn) return;
    main.replaceChildren(root);
    const ended = await module.show(root, wanted, app);
    if (mine !== turn) ended?.();
    else leave = ended;
  } catch (error) {
    if (mine !== turn) return;
    if (error.status === 401) signIn(error);
    else root.append(failure(error)), main.replaceChildren(root);
  }
}

function signIn(error) {
  const key = h("input", { type: "password", id: "key", autocomplete: "off", required: true });
  main.replaceChildren(h("div", { class: "page narrow" }, h("h1", {}, "Sign in"),
    h("p", {}, "This edge asks every caller for a key or a token. It is kept for this tab only."),
    credentials.key && failure(error),
    h("form", { onsubmit: (event) => { event.preventDefault(); credentials.key = key.value.trim(); start(); } },
      h("label", { for: "key" }, "Key or token"), key,
      h("div", { class: "row" }, h("button", { class: "main" }, "Sign in"))),
    h("p", { class: "muted" }, "Make a key where the edge runs: ", h("code", {}, "searchbus keys add NAME --role searchbus-operator"))));
  key.focus();
}

function drawState() {
  const state = document.getElementById("state");
  const waits = app.live.of("wait").length;
  const shown = !app.live.connected ? badge("not connected", "bad")
    : !app.me.sees ? badge(app.me.subject)
      : waits ? h("a", { class: "badge warn", href: "#/overview" }, `${waits} ${waits === 1 ? "waits" : "wait"} for you`) : badge("all well", "ok");
  if (state.textContent !== shown.textContent) state.replaceChildren(shown);
}

const shortcutsOn = () => localStorage.getItem(SHORTCUTS) !== "off";

function help() {
  const rows = [["/", "search, or filter this page"], ["j  k", "next and previous row"], ["Enter", "open the row"], ["Esc", "leave a field, close this"],
    ...PAGES.map(([, title, key]) => [`g ${key}`, title]), ["?", "this list"]];
  const toggle = h("input", { type: "checkbox", id: "shortcuts", onchange: () => localStorage.setItem(SHORTCUTS, toggle.checked ? "on" : "off") });
  toggle.checked = shortcutsOn();
  const dialog = h("dialog", { "aria-label": "Keys", onclose: () => dialog.remove() }, h("h2", {}, "Keys"),
    h("dl", { class: "keys" }, rows.map(([keys, what]) => [h("dt", {}, keys.split(" ").filter(Boolean).map((k) => h("kbd", {}, k))), h("dd", {}, what)])),
    h("p", {}, h("label", {}, toggle, " Single keys work")),
    h("div", { class: "row end" }, h("button", { onclick: () => dialog.close() }, "Close")));
  document.body.append(dialog);
  dialog.showModal();
}

let going = 0;
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key === "Escape" && typing) { event.target.blur(); return; }
  if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.key === "?") { help(); event.preventDefault(); return; }
  if (!shortcutsOn()) return;
  if (going && Date.now() - going < 1500) {
    going = 0;
    const page = PAGES.find(([, , key]) => key === event.key);
    if (page) { location.hash = `#/${page[0]}`; event.preventDefault(); }
    return;
  }
  if (event.key === "g") going = Date.now();
  else if (event.key === "/") {
    const field = main.querySelector("[data-search]");
    if (field) { field.focus(); field.select?.(); } else location.hash = "#/search";
    event.preventDefault();
  } else if (event.key === "j" || event.key === "k") {
    const rows = [...main.querySelectorAll("[data-row]")];
    const at = rows.indexOf(document.activeElement);
    const next = rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + (event.key === "j" ? 1 : -1)))];
    next?.focus();
    if (next) event.preventDefault();
  }
});

async function start() {
  try {
    app.me = await get("me");
  } catch (error) {
    if (error.status === 401) signIn(error);
    else main.replaceChildren(h("div", { class: "page" }, failure(error)));
    return;
  }
  document.getElementById("nav").replaceChildren(
    ...PAGES.filter(([, , , operator]) => !operator || app.me.sees).map(([name, title]) => h("a", { href: `#/${name}`, "data-page": name }, title)),
    h("button", { class: "quiet", type: "button", onclick: help }, h("kbd", {}, "?"), " Keys"));
  if (!app.live.following) app.live.following = app.live.follow();
  await show();
}

const token = /^#token=([\w-]+)$/.exec(location.hash);
if (token) {
  credentials.token = token[1];
  history.replaceState(null, "", "#/overview");
}
app.live.addEventListener("change", drawState);
// Whoever already writes into a field of the new page keeps the focus there.
const focusPage = () => main.contains(document.activeElement) || main.focus({ preventScroll: true });
addEventListener("hashchange", () => { app.me ? show().then(focusPage) : start(); });
start();
