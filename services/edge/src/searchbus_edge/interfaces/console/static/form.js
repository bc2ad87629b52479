// A form made from the JSON Schema of a tool's arguments. What no field fits is written as JSON.

import { clean, h } from "./dom.js";

const MOST_DEPTH = 8;

function resolved(schema, root, depth = 0) {
  if (schema && schema.$ref?.startsWith("#/") && depth < MOST_DEPTH) {
    const found = schema.$ref.slice(2).split("/").reduce((at, part) => at?.[part.replaceAll("~1", "/").replaceAll("~0", "~")], root);
    return { ...resolved(found, root, depth + 1), ...Object.fromEntries(Object.entries(schema).filter(([k]) => k !== "$ref")) };
  }
  const options = schema?.anyOf ?? schema?.oneOf;
  if (options) {
    const real = options.filter((o) => o.type !== "null");
    if (real.length === 1) return { ...resolved(real[0], root, depth + 1), ...Object.fromEntries(Object.entries(schema).filter(([k]) => k !== "anyOf" && k !== "oneOf")) };
  }
  const kinds = Array.isArray(schema?.type) ? schema.type.filter((t) => t !== "null") : null;
  return kinds?.length === 1 ? { ...schema, type: kinds[0] } : schema ?? {};
}

const scalar = (kind) => ["string", "integer", "number"].includes(kind);

function field(name, schema, root, required) {
  const id = `f-${name}`;
  const kind = resolved(schema, root);
  const items = kind.type === "array" ? resolved(kind.items, root) : null;
  const options = kind.enum ?? (kind.const !== undefined ? [kind.const] : null);
  let input, read;
  const props = { id, name, required, "aria-describedby": kind.description ? `${id}-help` : undefined };
  if (options) {
    input = h("select", props, !required && h("option", { value: "" }, "–"), options.map((o) => h("option", { value: JSON.stringify(o) }, clean(o))));
    if (kind.default !== undefined && kind.default !== null) input.value = JSON.stringify(kind.default);
    read = () => (input.value === "" ? undefined : JSON.parse(input.value));
  } else if (kind.type === "boolean") {
    input = h("select", props, !required && h("option", { value: "" }, `–${kind.default === undefined ? "" : ` (${kind.default})`}`), h("option", { value: "true" }, "true"), h("option", { value: "false" }, "false"));
    read = () => (input.value === "" ? undefined : input.value === "true");
  } else if (kind.type === "integer" || kind.type === "number") {
    input = h("input", { ...props, type: "number", step: kind.type === "integer" ? 1 : "any", min: kind.minimum, max: kind.maximum, placeholder: kind.default ?? "" });
    read = () => (input.value === "" ? undefined : Number(input.value));
  } else if (kind.type === "string") {
    const long = (kind.maxLength ?? 0) > 300 || /text|query|content|body/.test(name);
    input = h(long ? "textarea" : "input", { ...props, rows: long ? 2 : undefined, minlength: kind.minLength, maxlength: kind.maxLength, placeholder: kind.default ?? "", dir: "auto" });
    read = () => (input.value === "" && !required ? undefined : input.value);
  } else if (items && scalar(items.type)) {
    input = h("textarea", { ...props, rows: 2, placeholder: "One a line" });
    const one = (line) => (items.type === "string" ? line : Number(line));
    read = () => { const lines = input.value.split("\n").map((l) => l.trim()).filter(Boolean); return lines.length || required ? lines.map(one) : undefined; };
  } else {
    input = h("textarea", { ...props, rows: 3, class: "mono", placeholder: "JSON", spellcheck: "false" });
    read = () => (input.value.trim() === "" ? undefined : JSON.parse(input.value));
  }
  const node = h("div", { class: "field" }, h("label", { for: id }, clean(name), required && h("span", { class: "muted" }, " (required)")), input,
    kind.description && h("p", { class: "help", id: `${id}-help`, dir: "auto" }, clean(kind.description)));
  return { name, node, read, input };
}

// The form's fields, and `read()`: the arguments; it throws SyntaxError for JSON that is none.
export function schemaForm(schema) {
  const needed = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties ?? {}).map(([name, part]) => field(name, part, schema, needed.has(name)))
    .sort((a, b) => Number(needed.has(b.name)) - Number(needed.has(a.name)));
  const free = !fields.length && schema.additionalProperties !== false
    ? h("textarea", { class: "mono", rows: 3, "aria-label": "Arguments as JSON", placeholder: "{}", spellcheck: "false" }) : null;
  const rest = fields.filter((f) => !needed.has(f.name));
  const shown = rest.length > 4 ? [fields.filter((f) => needed.has(f.name)).map((f) => f.node), h("details", {}, h("summary", {}, `${rest.length} more arguments`), rest.map((f) => f.node))] : fields.map((f) => f.node);
  return {
    node: h("div", {}, shown, free, !fields.length && !free && h("p", { class: "muted" }, "Nothing to fill in.")),
    read() {
      if (free) return JSON.parse(free.value || "{}");
      const found = {};
      for (const { name, read } of fields) {
        let value;
        try { value = read(); } catch (error) { throw new SyntaxError(`${name}: ${error.message}`); }
        if (value !== undefined) found[name] = value;
      }
      return found;
    },
  };
}
