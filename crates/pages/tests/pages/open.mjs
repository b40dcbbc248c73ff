// Pages that are left open in a real Chromium: prints how its memory grows, without what it would throw away anyhow.
//
//   node open.mjs CONFIG     CONFIG: JSON with modules, chromium, address, seconds
//
// Prints `browser SECONDS s heap KB kb grows KB kb nodes COUNT grows COUNT asked PAGES`: what the pages hold after a fifth of the time, and
// how much more by the end, along the straight line that fits all measurements since then best.
import { createRequire } from "node:module";

const config = JSON.parse(process.argv[2]);
const { chromium } = createRequire(config.modules + "/")("playwright-core");
const PATHS = ["", "jobs/", "stages/", "executors/", "stages/stage/?id=0"];
const LOOKS = 60;

const browser = await chromium.launch({
  executablePath: config.chromium,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

// What all pages hold once nothing is left that nobody can reach.
async function held(sessions) {
  let heap = 0, nodes = 0;
  for (const session of sessions) {
    await session.send("HeapProfiler.collectGarbage");
    const { metrics } = await session.send("Performance.getMetrics");
    const of = (name) => metrics.find((it) => it.name === name).value;
    heap += of("JSHeapUsedSize") / 1024;
    nodes += of("Nodes");
  }
  return { heap, nodes };
}

// How much a straight line through all of these rises from the first to the last.
function growth(all, of) {
  const mean = (it) => all.reduce((sum, one) => sum + it(one), 0) / all.length;
  const time = mean((it) => it.at), value = mean(of);
  const rise = mean((it) => (it.at - time) * (of(it) - value)) / (mean((it) => (it.at - time) ** 2) || 1);
  return rise * (all[all.length - 1].at - all[0].at);
}

try {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 } });
  const sessions = [];
  let asked = 0;
  for (const path of PATHS) {
    const page = await context.newPage();
    await page.goto(config.address + path);
    page.on("request", (request) => { if (request.resourceType() === "fetch") asked += 1; });
    const session = await context.newCDPSession(page);
    await session.send("Performance.enable");
    await session.send("HeapProfiler.enable");
    sessions.push(session);
  }
  const start = Date.now(), every = Math.max(1000, config.seconds * 1000 / LOOKS), all = [];
  while (Date.now() - start < config.seconds * 1000) {
    await new Promise((done) => setTimeout(done, every));
    all.push({ at: Date.now() - start, ...await held(sessions) });
  }
  const warm = all.filter((it) => it.at >= config.seconds * 200);
  const round = (value) => value.toFixed(0);
  console.log(`browser ${config.seconds} s heap ${round(warm[0].heap)} kb grows ${round(growth(warm, (it) => it.heap))} kb `
    + `nodes ${round(warm[0].nodes)} grows ${round(growth(warm, (it) => it.nodes))} asked ${asked}`);
} finally {
  await browser.close();
}
