// The wire of searchbus for a worker that offers tools; § refers to proto/README.md.
import { createHash, createPublicKey, randomBytes, verify } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { connect, headers, nkeyAuthenticator } from "@nats-io/transport-node";

const MAX_IN_FLIGHT = 64;
const DRAIN_MS = 10_000;

/** A failure that the caller receives (§6). The message says what happened and what to do. */
export class Fault extends Error {
  constructor(code, message, { retryable = false, retryAfterMs = null } = {}) {
    super(message);
    Object.assign(this, { code, retryable, retryAfterMs });
  }
}

const late = () => new Fault("deadline_exceeded", "The tool was too slow. Ask for less.", { retryable: true });
const busy = () => new Fault("overloaded", "The worker is at its limit.", { retryable: true, retryAfterMs: 200 });
const stopped = () => new Fault("unavailable", "The worker stopped during the call.", { retryable: true });
const unsigned = () => new Fault("forbidden", "No edge of this bus signed the caller of this request.");

/** A variable, or the file of that name in the folder of secrets; undefined without either. */
function setting(name) {
  const folder = process.env.SEARCHBUS_SECRETS_DIR;
  if (process.env[name] || !folder) return process.env[name];
  try {
    return readFileSync(`${folder}/${name}`, "utf8").trim();
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
  }
}

const sha256 = (data) => createHash("sha256").update(data).digest("hex");
const token = () => randomBytes(11).toString("hex");

/** The files of TLS, as `searchbus nats-config --tls` puts them beside the seed; undefined without them. */
function tls() {
  const file = (name) => `${process.env.SEARCHBUS_SECRETS_DIR}/${name}`;
  if (!existsSync(file("ca.crt"))) return undefined;
  return { caFile: file("ca.crt"), certFile: file("client.crt"), keyFile: file("client.key") };
}

/** Connect and serve the tools until SIGTERM or SIGINT (§13). */
export async function serve(offer) {
  const seed = setting("SEARCHBUS_NATS_NKEY_SEED")?.split(/\s/)[0]; // two while it is rotated
  const nc = await connect({
    name: offer.service,
    servers: setting("SEARCHBUS_NATS_URL") ?? "nats://127.0.0.1:4222",
    authenticator: seed && nkeyAuthenticator(new TextEncoder().encode(seed)),
    tls: tls(),
    maxReconnectAttempts: -1, pingInterval: 3000, maxPingOut: 1, // §1.2
  });
  await new Worker(nc, offer).run();
}

class Worker {
  constructor(nc, { service, toolset, version, description, tools, prefix = "sb" }) {
    Object.assign(this, { nc, service, toolset, tools, root: `${prefix}.v1`, instance: token() });
    const x = setting("SEARCHBUS_ACTOR_PUBLIC_KEY");
    this.edgeKey = x && createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
    this.running = new Set();
    this.credits = new Map(); // reply subject of our own → what takes the credit of a large reply
    this.inbox = `${setting("SEARCHBUS_NATS_INBOX_PREFIX") ?? "_INBOX"}.${this.instance}.$PART`; // §5.1
    const listed = Object.entries(tools).map(([name, { run, ...rest }]) => ({ name, toolset, ...rest }));
    this.catalog = JSON.stringify({ service, tools: listed });
    const catalog = sha256(this.catalog).slice(0, 32); // §8.2
    const metadata = { searchbus: "v1", catalog, started_ms: `${Date.now()}` };
    this.info = { name: service, id: this.instance, version, description, metadata, endpoints: [] };
  }

  async run() {
    const { nc, service, instance, root } = this;
    const on = (subject, callback, queue) => nc.subscribe(subject, {
      queue, callback: (error, message) => (error ? console.error(error) : callback(message)),
    });
    const work = [
      on(`${root}.tool.${this.toolset}.*`, (m) => this.receive(m, (request) => this.call(request)), service),
      on(`${root}.catalog.${service}.${this.info.metadata.catalog}`, (m) => this.receive(m, () => this.catalog), service),
    ];
    const control = [
      on(`${root}.ctl.cancel.${service}`, (message) => this.cancel(message)),
      on(`${root}.ctl.ping.${service}.${instance}`, (m) => answer(m, { instance, in_flight: this.running.size })),
      on(`${this.inbox}.*`, (message) => this.credits.get(message.subject)?.(message)),
    ];
    const discovery = ["PING", "INFO", "STATS"].flatMap((verb) => ["", `.${service}`, `.${service}.${instance}`].map(
      (of) => on(`$SRV.${verb}${of}`, (m) => answer(m, { ...this.info, type: `io.nats.micro.v1.${verb.toLowerCase()}_response` })),
    )); // §8.1
    await nc.flush(); // The subscriptions exist before the worker is announced.
    this.announce("up");
    console.error(`${service} is on the bus as ${instance}`);
    await new Promise((stop) => ["SIGTERM", "SIGINT"].forEach((signal) => process.once(signal, stop)));
    this.announce("down"); // §5.7
    discovery.forEach((subscription) => subscription.unsubscribe());
    await Promise.all(work.map((subscription) => subscription.drain()));
    setTimeout(() => this.running.forEach((request) => request.end(stopped())), DRAIN_MS).unref();
    await Promise.all([...this.running].map((request) => request.done));
    await Promise.all(control.map((subscription) => subscription.drain()));
    await nc.drain();
  }

  announce(event) { // §8.4
    const { service, instance, info: { metadata } } = this;
    const body = { event, service, instance, catalog: metadata.catalog, metadata };
    this.nc.publish(`${this.root}.evt.catalog.${service}`, JSON.stringify(body));
  }

  /** One request: limit, deadline, the work, and exactly one reply or failure (§5.1). */
  receive(message, work) {
    if (!message.reply?.startsWith("_INBOX")) return;
    if (this.running.size >= MAX_IN_FLIGHT) return this.fail(message, busy()); // §5.6
    const stop = new AbortController();
    const request = { message, signal: stop.signal, end: (fault) => stop.abort(fault) };
    const ended = new Promise((_, reject) => stop.signal.addEventListener("abort", () => reject(stop.signal.reason)));
    let timer;
    const reply = async () => {
      const leftMs = budgetMs(message.headers);
      if (leftMs <= 0) throw late(); // §4.1
      timer = setTimeout(() => request.end(late()), leftMs);
      await this.reply(request, Buffer.from(await work(request)));
    };
    this.running.add(request);
    request.done = Promise.race([reply(), ended])
      .catch((error) => this.fail(message, stop.signal.aborted ? stop.signal.reason : error))
      .finally(() => (clearTimeout(timer), this.running.delete(request)));
  }

  async call({ message, signal }) {
    if (message.headers?.get("Parts")) { // §5.2: no tool here takes so much
      throw new Fault("invalid_argument", "The arguments are larger than 500 KB. Send less.");
    }
    const actor = this.actor(message);
    const { tool, arguments: args } = decoded(message.data);
    const found = message.subject.endsWith(`.${tool}`) && Object.hasOwn(this.tools, tool) && this.tools[tool]; // §7.2
    if (!found) throw new Fault("not_found", "This worker has no tool of that name. List the tools again.");
    if (!holds(actor, found.required_roles ?? [])) throw new Fault("forbidden", "The caller lacks a role.");
    if (args === null || typeof args !== "object") throw new Fault("invalid_argument", "arguments must be an object.");
    const progress = (done, total, text) => { // §5.3
      if (signal.aborted) return;
      const event = { kind: "progress", progress: done, total, message: text };
      this.publish(message.reply, JSON.stringify(event), { Event: "progress" });
    };
    return JSON.stringify(await found.run(args, { actor, signal, progress }));
  }

  /** Who calls. Refused where no edge signed that for this very request (§4.4). */
  actor({ headers: h, subject, data }) {
    const text = h?.get("Actor");
    if (!text) return { subject: "anonymous", roles: [] };
    if (this.edgeKey) {
      const [end, key, signature] = h.get("Actor-Sig").split(".");
      const signed = ["searchbus/actor/2", end, key, subject, h.get("Req-Id"), sha256(data), text].join("\n");
      const valid = verify(null, Buffer.from(signed), this.edgeKey, Buffer.from(signature ?? "", "base64url"));
      if (!valid || !(Number(end) >= Date.now())) throw unsigned();
    }
    return { subject: "anonymous", roles: [], ...decoded(text) };
  }

  /** Send a reply; a large one in parts, as many as its receiver allows (§5.2). */
  async reply({ message, signal }, body) {
    const partBytes = Math.min(524288, this.nc.info.max_payload - 8192);
    if (body.length <= partBytes) return this.publish(message.reply, body);
    const count = Math.ceil(body.length / partBytes);
    const digest = sha256(body);
    const subject = `${this.inbox}.${token()}`;
    let allowed = message.headers?.get("Credit") ? 0 : count;
    let wake = () => {};
    signal.addEventListener("abort", () => wake());
    this.credits.set(subject, (credit) => {
      const parts = /^[1-9][0-9]{0,6}$/.test(credit.string()) ? Number(credit.string()) : NaN; // NaN: no more
      allowed = Math.max(allowed, parts);
      wake();
    });
    try {
      if (!allowed) this.publish(message.reply, "", { Size: `${body.length}` }, subject);
      for (let index = 0; index < count; index++) {
        while (allowed <= index && !signal.aborted) await new Promise((resolve) => (wake = resolve));
        if (Number.isNaN(allowed) || signal.aborted) return;
        const part = body.subarray(index * partBytes, (index + 1) * partBytes);
        this.publish(message.reply, part, { Chunk: `${index}/${count} ${body.length} ${digest}` });
      }
    } finally {
      this.credits.delete(subject);
    }
  }

  /** Send a failure (§6). Of an unexpected error the caller receives no text. */
  fail(message, error) {
    const known = error instanceof Fault;
    if (!known) console.error(error);
    const { code, retryable, retryAfterMs, message: text } = known
      ? error : new Fault("internal", "The tool failed. Report it to the operator of the worker.");
    const line = text.replace(/\s+/g, " ").replace(/[^ -~]/g, "?").slice(0, 512);
    const fields = { "Nats-Service-Error-Code": code, "Nats-Service-Error": line };
    if (code === "unavailable") fields.Started = "1"; // §5.7
    this.publish(message.reply, JSON.stringify({ code, message: text, retryable, retry_after_ms: retryAfterMs }), fields);
  }

  cancel({ data }) { // §5.4
    const id = /"req_id"\s*:\s*"([^"]+)"/.exec(Buffer.from(data).toString())?.[1];
    for (const request of this.running) {
      if (id && request.message.headers?.get("Req-Id") === id) request.end(new Fault("cancelled", "The caller cancelled."));
    }
  }

  publish(subject, body, fields = {}, reply = undefined) {
    const h = headers();
    Object.entries(fields).forEach(([name, value]) => h.set(name, value));
    this.nc.publish(subject, body, { headers: h, reply });
  }
}

/** Reply to a ping or to discovery: only ever to an inbox. */
function answer(message, body) {
  if (message.reply?.startsWith("_INBOX")) message.respond(JSON.stringify(body));
}

function budgetMs(h) { // §4.1
  const [timeout, deadline] = ["Timeout-Ms", "Deadline-Ms"].map((name) => h?.get(name) || undefined);
  for (const value of [timeout, deadline]) {
    if (value && !/^[0-9]{1,16}$/.test(value)) throw new Fault("invalid_argument", "The deadline is not a number.");
  }
  const leftMs = deadline ? Number(deadline) - Date.now() : Infinity;
  return Math.min(leftMs, timeout ? Number(timeout) : deadline ? Infinity : 30_000);
}

function holds(actor, required) { // §4.2
  const bare = (role) => role.replace(/^ROLE_/, "");
  return actor.roles.includes("*") || required.every((role) => actor.roles.map(bare).includes(bare(role)));
}

function decoded(data) {
  try {
    const value = JSON.parse(typeof data === "string" ? data : new TextDecoder("utf-8", { fatal: true }).decode(data));
    if (value !== null && typeof value === "object") return value;
  } catch {} // refused below, without its text
  throw new Fault("invalid_argument", "The body must be a JSON object.");
}
