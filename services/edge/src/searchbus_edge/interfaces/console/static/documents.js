// Collections, their documents, a document's text; files are dropped here to be read.

import { get, post, upload } from "./api.js";
import { badge, clean, code, confirmed, count, empty, failure, h, link, paged, section, table, toast, words } from "./dom.js";

const MOST_SHOWN = 120, MOST_SENT = 1000;  // characters of a file's name; the edge refuses far shorter ones
const href = (...parts) => `#/documents/${parts.map(encodeURIComponent).join("/")}`;
const size = (bytes) => (bytes < 1024 ? `${bytes} B` : bytes < 1048576 ? `${Math.round(bytes / 1024)} KiB` : `${(bytes / 1048576).toFixed(1)} MiB`);

export function show(root, route, app) {
  const [collection, id] = route.parts;
  if (id) return showDocument(root, collection, id, route.query, app);
  return collection ? showCollection(root, collection, app) : showAll(root, app);
}

async function remove(collection, ids, what, done) {
  if (!(await confirmed(`Delete ${what}?`, "This cannot be undone; the files it was made of stay.", "Delete"))) return;
  try {
    const { documents } = await post("documents/delete", { collection, ids });
    toast(`${count(documents)} ${documents === 1 ? "document is" : "documents are"} deleted.`, "ok");
    done();
  } catch (error) { toast(error.message, "bad"); }
}

// Where files are dropped or chosen; each is sent by itself, two at a time.
function dropZone(name, me, done) {
  const list = h("ul", { class: "files", "aria-live": "polite" });
  const input = h("input", { type: "file", multiple: true, id: "files", class: "hidden", "aria-label": "Files", onchange: () => { send([...input.files]); input.value = ""; } });
  const zone = h("div", { class: "drop" }, h("p", {}, "Drop files here: Markdown, HTML, PDF, Office, code, tables, JSON lines."),
    input, h("button", { type: "button", disabled: !me.manages, onclick: () => input.click() }, "Choose files"),
    h("p", { class: "muted" }, me.manages ? ["Whole folders: ", code("searchbus ingest FOLDER --collection NAME")] : ["To add files, open this page by ", code("searchbus console"), "."]), list);
  const over = (event) => { event.preventDefault(); zone.classList.toggle("over", event.type === "dragover"); };
  zone.addEventListener("dragover", over);
  zone.addEventListener("dragleave", over);
  zone.addEventListener("drop", (event) => { over(event); if (me.manages) send([...event.dataTransfer.files]); });
  async function send(files) {
    const collection = name();
    if (!/^[\w-]{1,64}$/.test(collection)) { toast("Name the collection first: letters, digits, _ and -.", "bad"); return; }
    const rows = files.map((file) => {
      const short = file.name.length > MOST_SHOWN ? `${file.name.slice(0, MOST_SHOWN)}…` : file.name;
      const bar = h("progress", { max: 1, value: 0, "aria-label": clean(short) });
      const state = h("span", {}, bar);
      list.append(h("li", {}, words(short), " ", h("span", { class: "muted" }, size(file.size)), " ", state));
      return [file, bar, state];
    });
    const one = async () => {
      for (let row; (row = rows.shift());) {
        const [file, bar, state] = row;
        try {
          const found = await upload("documents/file", { collection, name: file.name.slice(0, MOST_SENT) }, file, (share) => { bar.value = share * 0.9; });
          const outcome = ["stored", "replaced", "unchanged", "skipped"].find((kind) => (Array.isArray(found[kind]) ? found[kind].length : found[kind])) ?? "skipped";
          state.replaceChildren(badge(outcome, outcome === "skipped" ? "warn" : "ok"));
        } catch (error) { state.replaceChildren(badge("failed", "bad"), " ", words(error.message)); }
      }
    };
    await Promise.all([one(), one()]);
    done();
  }
  return zone;
}

async function showAll(root, { me }) {
  const name = h("input", { id: "collection", value: "docs", maxlength: 64 });
  const fault = h("div");
  const list = table("Collections", [
    { name: "Collection", sign: (c) => c.name, cell: (c) => h("a", { href: href(c.name), "data-row": true }, words(c.name)) },
    { name: "Documents", class: "num", cell: (c) => count(c.documents) },
    { name: "Passages", class: "num", cell: (c) => count(c.chunks) },
    { name: "Fields", class: "grow wide", cell: (c) => words(Object.keys(c.fields ?? {}).join(", ")) },
    { name: "State", cell: (c) => (c.damage ? badge(words(c.damage).textContent, "bad") : badge("whole", "ok")) },
    { name: "Model", class: "wide", cell: (c) => words(c.model ?? "") },
  ], (c) => c.name, empty("There is no collection.", "Drop a file below, or fill one by ", code("searchbus ingest FOLDER --collection docs"), "."));
  const draw = async () => { try { list.update((await get("documents")).collections ?? []); fault.replaceChildren(); } catch (error) { fault.replaceChildren(failure(error)); } };
  root.append(h("h1", {}, "Documents"), fault, section("Collections", list),
    section("Add files", h("label", { for: "collection" }, "Collection"), h("div", { class: "row below" }, name), dropZone(() => name.value.trim(), me, draw)));
  await draw();
}

async function showCollection(root, collection, { me }) {
  const list = table("Documents", [
    { name: "Document", class: "grow", sign: (d) => d.title + d.document_id, cell: (d) => h("a", { href: href(collection, d.document_id), "data-row": true }, words(d.title || d.document_id)) },
    { name: "Passages", class: "num", cell: (d) => count(d.chunk_count) },
    { name: "Size", class: "num wide", cell: (d) => size(d.size_bytes ?? 0) },
    { name: "Action", class: "end", sign: (d) => d.document_id, cell: (d) => h("button", { class: "small bad", disabled: !me.manages, onclick: () => remove(collection, [d.document_id], d.title || d.document_id, () => pages.draw()), "aria-label": `Delete ${clean(d.title || d.document_id)}` }, "Delete") },
  ], (d) => d.document_id, empty("The collection is empty.", "Drop a file below."));
  const pages = paged(async (cursor) => {
    const { documents = [], next_cursor: next } = await get("documents", { collection, cursor });
    list.update(documents);
    return next;
  });
  root.append(h("nav", { "aria-label": "Way here", class: "crumbs" }, link("#/documents", "Documents")), h("h1", {}, words(collection)), pages.fault,
    section("Documents", list, pages.bar), section("Add files", dropZone(() => collection, me, () => pages.draw())),
    h("button", { class: "bad", disabled: !me.manages, onclick: () => remove(collection, [], `the collection ${collection}`, () => { location.hash = "#/documents"; }) }, "Delete the collection"));
  await pages.draw();
}

// The passages of a document as the search has them, each with its place in the text.
function passages(collection, id) {
  const list = h("ol", { class: "hits" });
  let shown = 0;
  const pages = paged(async (cursor) => {
    const { passages: found = [], next_cursor: next } = await get("passages", { collection, id, cursor });
    shown = Number(cursor || 0);
    list.replaceChildren(...found.map((one, at) => h("li", { class: "hit" },
      h("div", { class: "row top" }, h("span", { class: "muted num" }, `${count(shown + at + 1)}.`),
        one.end ? h("a", { href: `${href(collection, id)}?start=${one.start ?? 0}&end=${one.end}`, "data-row": true }, words(one.section || "In the text")) : words(one.section || "Passage"),
        one.fact && badge(clean(one.fact))),
      h("p", { class: "passage" }, words(one.text)))));
    if (!found.length) list.replaceChildren(h("li", {}, empty("There are no passages.", "The document may just be replaced: look again.")));
    return next;
  });
  pages.draw();
  return section("Passages", pages.fault, list, pages.bar);
}

async function showDocument(root, collection, id, query, { me }) {
  const from = Number(query.get("start") ?? 0), to = Number(query.get("end") ?? 0);
  const before = Math.max(0, from - 2000);
  let found = await get("document", { collection, id, start: before });
  const text = h("div", { class: "text", dir: "auto", tabindex: 0, role: "group", "aria-label": "Text" });
  const more = h("div", { class: "row gap" });
  function draw(document) {
    // Offsets count code points, and JavaScript's strings count halves of pairs.
    const letters = [...document.text];
    const first = document.start ?? 0;
    const cut = (start, end) => clean(letters.slice(Math.max(0, start - first), Math.max(0, end - first)).join(""));
    const stop = document.end ?? first + letters.length;
    const inside = to > from && from >= first && to <= stop;
    text.append(...(inside ? [cut(first, from), h("mark", {}, cut(from, to)), cut(to, stop)] : [cut(first, stop)]));
    const rest = (document.chars ?? stop) - stop;
    more.replaceChildren(...(rest > 0 ? [h("button", { onclick: async () => { try { found = await get("document", { collection, id, start: stop }); draw(found); } catch (error) { toast(error.message, "bad"); } } }, `Show more (${count(rest)} characters left)`)] : []));
  }
  root.append(h("nav", { "aria-label": "Way here", class: "crumbs" }, link("#/documents", "Documents"), " / ", h("a", { href: href(collection) }, words(collection))),
    h("h1", {}, words(found.title || id)),
    h("div", { class: "columns" }, h("div", {}, section("Text", before > 0 ? h("p", { class: "muted" }, `From character ${count(before)} on. `, h("a", { href: href(collection, id) }, "From the start")) : null, text, more), passages(collection, id)),
      h("div", {}, section("About", h("dl", { class: "facts" }, [["Collection", words(collection)], ["Id", code(clean(id))], ["Passages", count(found.chunk_count)], ["Characters", count(found.chars ?? 0)], ["Address", words(found.url ?? "–")],
        ...Object.entries(found.metadata ?? {}).map(([key, value]) => [words(key), words(value)])].map(([term, what]) => [h("dt", {}, term), h("dd", {}, what)]))),
      h("button", { class: "bad", disabled: !me.manages, onclick: () => remove(collection, [id], found.title || id, () => { location.hash = href(collection); }) }, "Delete this document"))));
  draw(found);
  text.querySelector("mark")?.scrollIntoView({ block: "center" });
}
