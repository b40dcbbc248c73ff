// Pages that are left open in a real Chromium, and what they hold beside the same pages just loaded.
//
//   node open.mjs CONFIG     CONFIG: JSON with chromium, address, paths, seconds, keeps (whether the pages are to leak: a bar has to notice)
//
// Prints, for each page, `held PATH heap OLD FRESH kb nodes OLD FRESH documents OLD FRESH listeners OLD FRESH asked GOOD BAD`: what is left
// after the browser threw away what it can, once the page was open that long and once it was loaded anew and has followed for a little
// while; and how often it asked for itself, with status 200 and without. Then `chromium SECOND LAST kb`: the median of what all
// processes hold (PSS) in the second and in the last fifth of the time.
//
// It speaks to Chromium over a pipe, not through playwright: that has the browser keep the body of every answer, which is
// what is to be measured here.
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const config = JSON.parse(process.argv[2]);
// So often a page that was loaded anew asks for itself before it is compared.
const FOLLOWS = 10;
const PATIENCE_MS = 180000;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

const profile = mkdtempSync(join(tmpdir(), "firesteel-open-"));
const browser = spawn(config.chromium, [
  "--headless=new", "--remote-debugging-pipe", `--user-data-dir=${profile}`, "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-dev-shm-usage",
  "--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });

// Commands to the browser, or to one of its pages: JSON, with a zero behind each.
const waiting = new Map();
let numbers = 0, rest = "";
browser.stdio[4].setEncoding("utf8").on("data", (chunk) => {
  const parts = (rest + chunk).split("\0");
  rest = parts.pop();
  for (const { id, result, error } of parts.map((part) => JSON.parse(part))) {
    const wait = waiting.get(id);
    waiting.delete(id);
    if (wait) error ? wait.fail(new Error(`${wait.method}: ${error.message}`)) : wait.done(result);
  }
});
browser.on("exit", () => waiting.forEach((wait) => wait.fail(new Error("Chromium ended"))));
browser.stdio[3].on("error", () => {});
const send = (method, params = {}, sessionId = undefined) => new Promise((done, fail) => {
  waiting.set(++numbers, { done, fail, method });
  browser.stdio[3].write(JSON.stringify({ id: numbers, method, params, sessionId }) + "\0");
});

// Counts what a page asks for, before anything of it runs.
const COUNT = `window.asked = { good: 0, bad: 0 };
  const real = window.fetch;
  window.fetch = async (...all) => {
    const answer = await real(...all).catch((error) => { window.asked.bad += 1; throw error; });
    answer.status === 200 ? window.asked.good += 1 : window.asked.bad += 1;
    return answer;
  };`;
// A page that leaks: what was shown before stays.
const KEEP = `window.kept = [];
  document.addEventListener("DOMContentLoaded", () => new MutationObserver((all) => all.forEach((it) => window.kept.push(...it.removedNodes)))
    .observe(document.getElementById("main"), { childList: true }));`;

async function open(path) {
  const { targetId } = await send("Target.createTarget", { url: "about:blank", newWindow: true });
  const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
  const page = { path, send: (method, params) => send(method, params, sessionId) };
  for (const domain of ["Page", "Performance", "HeapProfiler"]) await page.send(`${domain}.enable`);
  await page.send("Emulation.setFocusEmulationEnabled", { enabled: true });
  await page.send("Page.addScriptToEvaluateOnNewDocument", { source: COUNT });
  // What leaks is what was open, not what it is compared with.
  page.leak = config.keeps ? (await page.send("Page.addScriptToEvaluateOnNewDocument", { source: KEEP })).identifier : null;
  await page.send("Page.navigate", { url: config.address + path });
  return page;
}

async function asked(page) {
  const { result } = await page.send("Runtime.evaluate", { expression: "window.asked", returnByValue: true });
  return result.value || { good: 0, bad: 0 };
}

// What all pages hold once nothing is left that nobody can reach: the least of three looks, for one may be loading.
async function settled(pages) {
  const least = pages.map(() => null);
  for (let look = 0; look < 3; look += 1) {
    if (look) await sleep(1000);
    for (const [number, page] of pages.entries()) {
      await page.send("HeapProfiler.collectGarbage");
      const { metrics } = await page.send("Performance.getMetrics");
      const counts = await page.send("Memory.getDOMCounters");
      const heap = metrics.find((it) => it.name === "JSHeapUsedSize").value / 1024;
      const now = { heap, nodes: counts.nodes, documents: counts.documents, listeners: counts.jsEventListeners };
      const before = least[number] || now;
      least[number] = Object.fromEntries(Object.entries(now).map(([name, value]) => [name, Math.min(value, before[name])]));
    }
  }
  return least;
}

// What Chromium and all processes below it hold: shared pages by the part of each.
function proportional() {
  const below = new Map();
  for (const id of readdirSync("/proc").filter((it) => /^\d+$/.test(it))) {
    try {
      const parent = Number(readFileSync(`/proc/${id}/stat`, "utf8").replace(/^.*\) /s, "").split(" ")[1]);
      below.set(parent, [...(below.get(parent) || []), Number(id)]);
    } catch { /* It ended. */ }
  }
  const all = [browser.pid];
  for (const id of all) all.push(...(below.get(id) || []));
  return all.reduce((sum, id) => {
    try {
      return sum + Number(/^Pss:\s+(\d+) kB/m.exec(readFileSync(`/proc/${id}/smaps_rollup`, "utf8"))?.[1] || 0);
    } catch { return sum; }
  }, 0);
}

const median = (all) => [...all].sort((a, b) => a - b)[Math.floor(all.length / 2)] || 0;

try {
  const pages = [];
  for (const path of config.paths) pages.push(await open(path));
  const start = Date.now(), lasts = config.seconds * 1000, looks = [];
  while (Date.now() - start < lasts) {
    await sleep(Math.max(1000, lasts / 100));
    looks.push({ at: (Date.now() - start) / lasts, kb: proportional() });
  }
  const counts = await Promise.all(pages.map(asked));
  const old = await settled(pages);
  for (const page of pages) {
    if (page.leak) await page.send("Page.removeScriptToEvaluateOnNewDocument", { identifier: page.leak });
    await page.send("Page.reload");
  }
  const deadline = Date.now() + PATIENCE_MS;
  for (const page of pages) {
    while ((await asked(page)).good < FOLLOWS) {
      if (Date.now() > deadline) throw new Error(`${page.path} does not follow once it is loaded anew`);
      await sleep(500);
    }
  }
  const fresh = await settled(pages);
  for (const [number, { path }] of pages.entries()) {
    const both = (name) => `${name} ${old[number][name].toFixed(0)} ${fresh[number][name].toFixed(0)}`;
    console.log(`held /${path} ${both("heap")} kb ${both("nodes")} ${both("documents")} ${both("listeners")} asked ${counts[number].good} ${counts[number].bad}`);
  }
  const fifth = (from, to) => median(looks.filter((it) => it.at >= from && it.at < to).map((it) => it.kb));
  console.log(`chromium ${fifth(0.2, 0.4)} ${fifth(0.8, 2)} kb`);
} finally {
  // Without its pipe Chromium ends.
  browser.stdio[3].destroy();
  await Promise.race([new Promise((done) => browser.on("exit", done)), sleep(5000)]);
  if (browser.exitCode === null) browser.kill("SIGKILL");
  rmSync(profile, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
}
