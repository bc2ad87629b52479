// The toolset `dice`: what a worker in JavaScript offers. wire.mjs has the protocol.
import { randomInt } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Fault, serve } from "./wire.mjs";

/** An integer of the arguments within its limits. The edge checks them too, but others may call. */
function integer(args, name, least, most, missing) {
  const value = args[name] ?? missing;
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw new Fault("invalid_argument", `${name} must be an integer from ${least} to ${most}.`);
}

const schema = (required, properties) => ({ type: "object", properties, required });
const limited = (minimum, maximum, description) => ({ type: "integer", minimum, maximum, description });

const roll = {
  title: "Roll dice",
  description: "Roll dice one after the other and report each of them.",
  annotations: { readOnlyHint: true },
  input_schema: schema(["sides"], {
    sides: limited(1, 1000, "Sides of each die."),
    count: { ...limited(1, 100, "How many dice."), default: 1 },
    pause_ms: { ...limited(0, 60_000, "Pause after each die."), default: 0 },
  }),
  output_schema: schema(["dice"], { dice: { type: "array", items: { type: "integer" } } }),
  renderer: "json",
  examples: ["throw two dice"],
  async run(args, call) {
    const sides = integer(args, "sides", 1, 1000);
    const count = integer(args, "count", 1, 100, 1);
    const pauseMs = integer(args, "pause_ms", 0, 60_000, 0);
    if (sides === 1) throw new Fault("not_found", "There is no die with one side. Use two or more.");
    const dice = [];
    while (dice.length < count) {
      dice.push(randomInt(1, sides + 1));
      call.progress(dice.length, count, `${dice.length} of ${count} dice`);
      await sleep(pauseMs, undefined, { signal: call.signal });
    }
    return { structured: { dice } };
  },
};

const table = {
  title: "Table of rolls",
  description: "A table of random rolls, as text of up to 4 MB.",
  annotations: { readOnlyHint: true },
  input_schema: schema(["size_bytes"], { size_bytes: limited(1, 4_000_000, "Size of the text.") }),
  run(args) {
    const sizeBytes = integer(args, "size_bytes", 1, 4_000_000);
    const text = Array.from({ length: Math.ceil(sizeBytes / 2) }, () => randomInt(1, 7)).join("\n");
    return { content: [{ type: "text", text: text.padEnd(sizeBytes).slice(0, sizeBytes) }] };
  },
};

await serve({ service: "dice", toolset: "dice", version: "1.0.0", description: "Dice.", tools: { roll, table } });
