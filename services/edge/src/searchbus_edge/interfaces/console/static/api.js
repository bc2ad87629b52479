// Requests to this edge. A credential is kept for this tab only, and sent as a header: no cookie, so
// that no page of another site can send one.

const API = new URL("console/api/", location.href.split(/[?#]/)[0]);
const KEY = "searchbus.key", TOKEN = "searchbus.token";

export class Problem extends Error {
  constructor(status, detail, code) {
    super(detail);
    this.status = status;
    this.code = code;
  }
}

export const credentials = {
  get key() { return sessionStorage.getItem(KEY) ?? ""; },
  set key(value) { value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY); },
  set token(value) { sessionStorage.setItem(TOKEN, value); },
};

function headers(more) {
  const found = { ...more };
  if (credentials.key) found.Authorization = `Bearer ${credentials.key}`;
  const token = sessionStorage.getItem(TOKEN);
  if (token) found["Searchbus-Console"] = token;
  return found;
}

async function send(path, options) {
  let answer;
  try {
    answer = await fetch(new URL(path, API), { cache: "no-store", credentials: "omit", redirect: "error", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The edge does not answer. Is the stack running? searchbus doctor says what is wrong.");
  }
  if (answer.ok) return answer;
  let found = {};
  try { found = await answer.json(); } catch { /* a proxy's own page */ }
  throw new Problem(answer.status, typeof found.detail === "string" ? found.detail : `HTTP ${answer.status}`, found.code);
}

const query = (params) => new URLSearchParams(Object.entries(params ?? {}).filter(([, v]) => v !== undefined && v !== "" && v !== null));

export async function get(path, params, signal) {
  const text = String(query(params));
  const answer = await send(text ? `${path}?${text}` : path, { headers: headers({ Accept: "application/json" }), signal });
  return answer.json();
}

export async function post(path, body, signal) {
  const answer = await send(path, { method: "POST", signal, body: JSON.stringify(body), headers: headers({ "Content-Type": "application/json" }) });
  return answer.json();
}

// Sends a file; calls back with the share that was sent. XMLHttpRequest, since fetch does not say.
export function upload(path, params, file, onshare) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", new URL(`${path}?${query(params)}`, API));
    for (const [name, value] of Object.entries(headers({ "Content-Type": "application/octet-stream" }))) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => event.lengthComputable && onshare(event.loaded / event.total);
    request.onerror = () => reject(new Problem(0, "The edge does not answer."));
    request.onload = () => {
      let found = {};
      try { found = JSON.parse(request.responseText); } catch { /* a proxy's own page */ }
      request.status < 300 ? resolve(found) : reject(new Problem(request.status, found.detail ?? `HTTP ${request.status}`, found.code));
    };
    request.send(file);
  });
}

// Calls back for each event of a stream, until it ends or the signal aborts it.
export async function events(path, { body, signal, onevent }) {
  const answer = await send(path, {
    method: body === undefined ? "GET" : "POST", signal,
    body: body === undefined ? undefined : JSON.stringify(body),
    headers: headers({ Accept: "text/event-stream", ...(body === undefined ? {} : { "Content-Type": "application/json" }) }),
  });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    let end;
    while ((end = rest.indexOf("\n\n")) >= 0) {
      const lines = rest.slice(0, end).split("\n");
      rest = rest.slice(end + 2);
      const field = (name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      const data = field("data");
      if (data !== undefined) onevent(field("event") ?? "message", JSON.parse(data));
    }
  }
}

// What runs, kept up to date: key → value, see overview.py.
export class Live extends EventTarget {
  constructor() {
    super();
    this.state = new Map();
    this.connected = false;
  }

  async follow() {
    for (;;) {
      try {
        let first = true;
        await events("events", { onevent: (_, changed) => {
          if (first) this.state.clear();
          first = false;
          this.connected = true;
          for (const [key, value] of Object.entries(changed)) value === null ? this.state.delete(key) : this.state.set(key, value);
          this.dispatchEvent(new Event("change"));
        } });
      } catch (error) {
        if (error.status === 401 || error.status === 403) { this.following = null; return; } // until somebody signs in again
      }
      this.connected = false;
      this.dispatchEvent(new Event("change"));
      await new Promise((resolve) => setTimeout(resolve, 2000));
    }
  }

  of(kind) {
    return [...this.state].filter(([key]) => key.startsWith(`${kind}/`)).map(([, value]) => value);
  }
}
