// Preloaded into the suite. It gives some answers half a second, which a machine that runs
// other tests can miss, and it has no option for that: each of its limits is ten times as long.
// Shorter waits are between two looks at a task.
const wait = globalThis.setTimeout;
globalThis.setTimeout = (callback, delay_ms, ...rest) =>
  wait(callback, delay_ms < 400 ? delay_ms : 10 * delay_ms, ...rest);
