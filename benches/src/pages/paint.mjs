// When a page first shows something in a real Chromium, in turns, and how many requests that took: prints
// `paint NAME SIDE MILLISECONDS REQUESTS` a line.
//
//   node paint.mjs CONFIG     CONFIG: JSON with modules, chromium, rounds, and pages: [name, { side: address, ... }]
import { createRequire } from "node:module";

const config = JSON.parse(process.argv[2]);
const { chromium } = createRequire(config.modules + "/")("playwright-core");
const LIMIT = 120000;

// Every time as somebody who was never there: nothing is cached.
async function paint(browser, url) {
  const context = await browser.newContext({ viewport: { width: 1600, height: 1000 } });
  const page = await context.newPage();
  let requests = 0;
  page.on("request", (request) => { requests += request.url().startsWith("data:") ? 0 : 1; });
  const response = await page.goto(url, { waitUntil: "load", timeout: LIMIT });
  if (!response || response.status() !== 200) throw new Error(`${url}: status ${response && response.status()}`);
  const first = () => page.evaluate(() => {
    const entry = performance.getEntriesByName("first-contentful-paint")[0];
    return entry ? entry.startTime : null;
  });
  const deadline = Date.now() + LIMIT;
  let found = await first();
  while (found === null && Date.now() < deadline) {
    await page.waitForTimeout(20);
    found = await first();
  }
  await context.close();
  if (found === null) throw new Error(`${url}: nothing is painted`);
  return { ms: found, requests };
}

const browser = await chromium.launch({
  executablePath: config.chromium,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
try {
  // The first page of a browser and of a server is slower than all others.
  for (const [, sides] of config.pages) for (const url of Object.values(sides)) await paint(browser, url);
  for (let round = 0; round < config.rounds; round += 1) {
    for (const [name, sides] of config.pages) {
      for (const [side, url] of Object.entries(sides)) {
        const { ms, requests } = await paint(browser, url);
        console.log(`paint ${name} ${side} ${ms.toFixed(3)} ${requests}`);
      }
    }
  }
} finally {
  await browser.close();
}
