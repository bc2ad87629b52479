// Builds elements. Text of others enters the page as text nodes only: nothing here reads HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child))));
  return node;
}

export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
export const svg = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

// Controls, marks of direction and invisible characters are shown by their number, not obeyed.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e0fff}]/gu;
export const clean = (text) =>
  String(text ?? "").replaceAll("\r\n", "\n")
    .replace(HIDDEN, (c) => `\u27e8${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`);
export const words = (text, props) => h("span", { dir: "auto", class: "theirs", ...props }, clean(text));

const MOST = 200_000;
export function block(text, label) {
  const all = clean(text);
  const pre = h("pre", { tabindex: 0, "aria-label": label, dir: "auto" }, all.slice(0, MOST));
  const more = all.length > MOST && h("button", { onclick: () => { pre.textContent = all; more.remove(); } },
    `Show all ${all.length.toLocaleString()} characters`);
  return h("div", { class: "block" }, pre, h("div", { class: "corner" }, copyButton(() => all)), more);
}
export const json = (value) => JSON.stringify(value, null, 2);

export function copyButton(read, label = "Copy") {
  const button = h("button", { class: "small", type: "button", onclick: async () => {
    try {
      await navigator.clipboard.writeText(read());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select and copy";
    }
    setTimeout(() => { button.textContent = label; }, 1600);
  } }, label);
  return button;
}

export const badge = (text, kind = "plain") => h("span", { class: `badge ${kind}` }, text);
export const empty = (title, ...what) => h("div", { class: "empty" }, h("p", { class: "strong" }, title), h("p", {}, ...what));
export const code = (text) => h("code", {}, text);
export const link = (href, ...what) => h("a", { href }, ...what);

export function toast(text, kind = "plain") {
  const shown = h("div", { class: `toast ${kind}` }, clean(text));
  document.getElementById("toasts").append(shown);
  setTimeout(() => shown.remove(), 6000);
}

export function failure(error) {
  return h("div", { class: "note bad", role: "alert" }, words(error.message));
}

// A question with two answers; resolves to whether it was confirmed.
export function confirmed(title, text, yes) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { "aria-label": title, onclose: () => { dialog.remove(); resolve(dialog.returnValue === "yes"); } },
      h("h2", {}, title), h("p", {}, words(text)),
      h("div", { class: "row end" },
        h("button", { type: "button", onclick: () => dialog.close("no") }, "Keep it"),
        h("button", { class: "bad", type: "button", onclick: () => dialog.close("yes") }, yes)));
    document.body.append(dialog);
    dialog.showModal();
  });
}

// A table whose rows keep their elements, so that a live update moves neither focus nor selection.
// Columns: {name, cell(row) → text or element, class, sign(row) → what decides whether it is drawn again}.
export function table(label, columns, key, shownEmpty) {
  const rows = new Map();
  const body = h("tbody");
  const all = h("table", {}, h("caption", { class: "hidden" }, label),
    h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col", class: c.class }, c.name)))), body);
  const root = h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": label }, all);
  root.update = (items) => {
    const seen = new Set();
    let after = null;
    for (const item of items) {
      const id = key(item);
      seen.add(id);
      let row = rows.get(id);
      if (!row) {
        row = { node: h("tr"), signs: [] };
        columns.forEach((c, at) => row.node.append(h(at ? "td" : "th", { class: c.class, scope: at ? undefined : "row" })));
        rows.set(id, row);
      }
      columns.forEach((c, at) => {
        const cell = c.sign ? null : c.cell(item);
        const sign = c.sign ? c.sign(item) : cell instanceof Node ? cell.textContent : String(cell);
        if (row.signs[at] === sign) return;
        row.signs[at] = sign;
        const drawn = c.sign ? c.cell(item) : cell;
        row.node.children[at].replaceChildren(drawn instanceof Node ? drawn : String(drawn));
      });
      const next = after ? after.nextSibling : body.firstChild;
      if (next !== row.node) body.insertBefore(row.node, next);
      after = row.node;
    }
    for (const [id, row] of rows) if (!seen.has(id)) { row.node.remove(); rows.delete(id); }
    all.hidden = !items.length;
    if (!items.length && shownEmpty && !root.contains(shownEmpty)) root.append(shownEmpty);
    if (items.length && shownEmpty) shownEmpty.remove();
  };
  return root;
}

// A list that is read page by page: `load(cursor)` draws one, and returns the cursor of the next.
export function paged(load) {
  const fault = h("div"), bar = h("div", { class: "row pager", hidden: true });
  const step = (text, cursors) => h("button", { type: "button", disabled: !cursors, onclick: () => draw(cursors) }, text);
  async function draw(cursors = [""]) {
    try {
      const next = await load(cursors.at(-1));
      bar.hidden = cursors.length < 2 && !next;
      bar.replaceChildren(h("span", { role: "status" }, `Page ${cursors.length}`),
        step("Previous", cursors.length > 1 && cursors.slice(0, -1)), step("Next", next && [...cursors, next]));
      fault.replaceChildren();
    } catch (error) { fault.replaceChildren(failure(error)); }
  }
  return { fault, bar, draw };
}

export const section = (title, ...what) => {
  const id = `s-${title.toLowerCase().replace(/\W+/g, "-")}`;
  return h("section", { class: "card", "aria-labelledby": id }, h("h2", { id }, title), ...what);
};

export function ago(ms) {
  const s = Math.max(0, Math.round((Date.now() - ms) / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86_400)} d`;
}
export function left(ms) {
  const s = Math.max(0, Math.ceil((ms - Date.now()) / 1000));
  return s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}
export const count = (n) => Math.round(n).toLocaleString("en");
export const duration = (ms) => (ms < 10 ? `${ms.toFixed(1)} ms` : ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(2)} s`);
