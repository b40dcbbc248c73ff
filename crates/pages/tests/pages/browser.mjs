// Opens every page in a real Chromium: light and dark, 400 and 1600 pixels wide, with and without script. Complains about errors in
// the console, sideways scrolling, what axe finds serious, and text of applications that ran as a script.
//
//   node browser.mjs CONFIG     CONFIG: JSON with live, history, docs, master, large, report (addresses), modules, chromium, shots and
//                               pictures (folders, or "")
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";

const config = JSON.parse(process.argv[2]);
const require = createRequire(config.modules + "/");
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const application = ["", "jobs/", "jobs/job/?id=0", "jobs/job/?id=4", "stages/", "stages/stage/?id=0", "stages/stage/?id=9", "storage/",
  "storage/rdd/?id=0", "environment/", "executors/", "executors/?at=2", "executors/threadDump/?executorId=0", "nowhere/"];
const pages = [
  ...application.map((path) => ["live-" + name(path), config.live + path]),
  ...config.history.map(([title, url]) => [title, url]),
  ["report", config.report],
];
function name(path) { return path.replace(/\W+/g, "-").replace(/^-|-$/g, "") || "overview"; }

const complaints = [];
let looked = 0, checked = 0;

async function look(browser, title, url, { dark, width, script }) {
  const where = `${title}, ${dark ? "dark" : "light"}, ${width} px${script ? "" : ", script off"}`;
  const context = await browser.newContext({
    viewport: { width, height: width < 600 ? 800 : 1000 }, colorScheme: dark ? "dark" : "light", javaScriptEnabled: script,
  });
  const page = await context.newPage();
  const is_refusal = title.includes("nowhere");
  page.on("console", (message) => {
    if (message.type() === "error" && !(is_refusal && message.text().includes("404"))) complaints.push(`${where}: console: ${message.text()}`);
  });
  page.on("pageerror", (error) => complaints.push(`${where}: error: ${error}`));
  page.on("requestfailed", (request) => {
    if (!request.url().endsWith("/events")) complaints.push(`${where}: failed: ${request.url()}`);
  });
  const response = await page.goto(url, { waitUntil: "load" });
  if (response && response.status() !== (is_refusal ? 404 : 200)) complaints.push(`${where}: status ${response.status()}`);
  if (await page.locator("h1").count() === 0) complaints.push(`${where}: no h1`);
  await inspect(page, where, script);
  if (config.shots) await page.screenshot({ path: `${config.shots}/${title}-${dark ? "dark" : "light"}-${width}${script ? "" : "-off"}.png`, fullPage: true });
  await context.close();
  looked += 1;
}

async function inspect(page, where, script) {
  const found = await page.evaluate(() => ({
    wide: document.documentElement.scrollWidth - window.innerWidth, evil: window.evil, inline: document.querySelectorAll("[style]").length,
    // What only readers of screens are told takes no place on them.
    seen: [...document.querySelectorAll(".hidden")].filter((it) => { const box = it.getBoundingClientRect(); return box.width > 1 || box.height > 1; }).map((it) => it.textContent),
  }));
  for (const text of found.seen) complaints.push(`${where}: "${text}" is to be seen`);
  if (found.wide > 0) complaints.push(`${where}: scrolls sideways by ${found.wide} px`);
  if (found.evil !== undefined) complaints.push(`${where}: a script of the application ran`);
  // Axe waits for timers, which do not run where no script does.
  if (!script) return;
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  for (const it of violations.filter((it) => ["serious", "critical"].includes(it.impact))) {
    complaints.push(`${where}: axe: ${it.id}: ${it.help}: ${it.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
  }
}

// A page of a running application follows it without being loaded again, stops when told to, and keeps what the reader opened.
async function follows(browser) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 } });
  const page = await context.newPage();
  await page.goto(config.live);
  const executors = () => page.evaluate(() => [...document.querySelectorAll(".facts div")].map((it) => it.textContent).find((it) => it.startsWith("Executors")));
  await page.keyboard.press("Tab");
  if (await page.evaluate(() => document.activeElement.className) !== "skip") complaints.push("follows: the first stop of the keyboard is no way to the content");
  await page.evaluate(() => { window.mark = 1; document.querySelector("details").open = true; });
  const first = await executors();
  const deadline = Date.now() + 30000;
  while (await executors() === first && Date.now() < deadline) await page.waitForTimeout(100);
  if (await executors() === first) complaints.push("follows: the page does not change when the application does");
  if (!await page.evaluate(() => window.mark === 1 && document.querySelector("details").open)) complaints.push("follows: it was loaded anew, or closed what was open");
  await page.click("#pause");
  await page.waitForTimeout(300);
  const paused = await executors();
  await page.waitForTimeout(4000);
  if (await executors() !== paused) complaints.push("follows: it changes although it is paused");
  await context.close();
}

// Only a page that can be seen holds a connection; one that was refused asks again; a page of another application is another page.
async function connects(browser) {
  const context = await browser.newContext();
  await context.addInitScript(() => {
    const Real = window.EventSource;
    window.hides = true;
    window.connections = 0;
    Object.defineProperty(document, "hidden", { get: () => window.hides });
    window.EventSource = class extends Real { constructor(url) { super(url); window.connections += 1; } };
  });
  const page = await context.newPage();
  let asked = 0, isAnother = false;
  await page.route("**/events", (route) => {
    asked += 1;
    if (asked === 1) return route.fulfill({ status: 503, body: "" });
    if (!isAnother) return route.continue();
    return route.fulfill({ contentType: "text/event-stream", body: "event: hello\ndata: 0 0\n\n" });
  });
  const hide = (hides) => page.evaluate((hides) => { window.hides = hides; document.dispatchEvent(new Event("visibilitychange")); }, hides);
  const until = (what) => page.waitForFunction(what, null, { timeout: 30000 }).then(() => true, () => false);
  await page.goto(config.live);
  if (await page.evaluate(() => window.connections) !== 0) complaints.push("connects: a page that nobody sees holds a connection");
  await hide(false);
  if (!await until(() => document.getElementById("live").textContent.startsWith("Live"))) complaints.push("connects: a page that was refused once never follows again");
  await page.evaluate(() => { window.mark = 1; });
  isAnother = true;
  await hide(true);
  await hide(false);
  if (!await until(() => window.mark === undefined)) complaints.push("connects: what another application does is shown below the old name");
  await context.close();
}

// What a reader opened, typed, scrolled to and stands on is the same after the page changed.
async function keeps(browser) {
  const context = await browser.newContext({ viewport: { width: 400, height: 800 } });
  const page = await context.newPage();
  await page.goto(config.live + "jobs/job/?id=11");
  await page.click("details.kill summary");
  await page.fill("input[name=reason]", "too slow");
  const looks = () => page.evaluate(() => ({
    open: document.querySelector("details.kill").open, reason: document.querySelector("input[name=reason]").value,
    left: document.querySelector(".scroll").scrollLeft, stands: document.activeElement.textContent,
  }));
  await page.evaluate(() => {
    document.querySelector(".scroll").scrollLeft = 40;
    document.querySelector("details.kill summary").focus();
    document.querySelector("main h1").isOld = true;
  });
  const before = await looks();
  await page.waitForFunction(() => !document.querySelector("main h1").isOld, null, { timeout: 30000 }).catch(() => complaints.push("keeps: the page does not change"));
  const after = await looks();
  if (before.left === 0) complaints.push("keeps: nothing to be scrolled");
  for (const what of Object.keys(before)) {
    if (before[what] !== after[what]) complaints.push(`keeps: ${what} was ${before[what]} and is ${after[what]}`);
  }
  await context.close();
}

// The pages of a master follow it as those of an application do.
async function master(browser) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 } });
  const page = await context.newPage();
  await page.goto(config.master);
  const cores = () => page.evaluate(() => [...document.querySelectorAll(".facts div")].map((it) => it.textContent).find((it) => it.startsWith("Cores")));
  await page.evaluate(() => { window.mark = 1; document.querySelectorAll("details.kill")[1].open = true; });
  const first = await cores(), deadline = Date.now() + 30000;
  while (await cores() === first && Date.now() < deadline) await page.waitForTimeout(100);
  if (await cores() === first) complaints.push("master: the page does not change when the cluster does");
  const kept = await page.evaluate(() => window.mark === 1 && [...document.querySelectorAll("details.kill")].map((it) => it.open).join());
  if (!/^false,true(,false)*$/.test(kept)) complaints.push(`master: what was open is ${kept}`);
  if (!await page.evaluate(() => document.getElementById("live").textContent.startsWith("Live"))) complaints.push("master: it does not say that it is live");
  await context.close();
}

// A form of a page ends what it says, with script and without, and leads back to its page.
async function kills(browser) {
  for (const script of [true, false]) {
    const said = `by a browser ${script ? "with" : "without"} script`;
    for (const [what, path] of [["job", "jobs/job/?id=11"], ["stage", "stages/stage/?id=23"]]) {
      const context = await browser.newContext({ viewport: { width: 400, height: 800 }, javaScriptEnabled: script });
      const page = await context.newPage();
      await page.goto(config.live + path);
      await page.click("details.kill summary");
      await page.fill("details.kill input[name=reason]", said);
      const [answer] = await Promise.all([
        page.waitForResponse((it) => it.request().method() === "POST", { timeout: 30000 }),
        page.click("details.kill button.danger"),
      ]);
      if (answer.status() !== 303) complaints.push(`kills: ${what}, ${said}: status ${answer.status()}`);
      await page.waitForURL(config.live + path, { timeout: 30000 }).catch(() => complaints.push(`kills: ${what}, ${said}: leads to ${page.url()}`));
      await context.close();
    }
  }
}

// A page takes two requests, itself and the style sheet; one that is kept up to date the script and its updates as well.
async function requests(browser) {
  for (const [title, url, wanted] of [["large", config.large, ["document", "stylesheet"]],
    ["live", config.live + "stages/stage/?id=0", ["document", "eventsource", "script", "stylesheet"]],
    ["master", config.master, ["document", "eventsource", "script", "stylesheet"]]]) {
    const context = await browser.newContext();
    const page = await context.newPage();
    const asked = [];
    page.on("request", (request) => { if (!request.url().startsWith("data:")) asked.push(request.resourceType()); });
    await page.goto(url, { waitUntil: "load" });
    await page.waitForTimeout(500);
    if (asked.sort().join() !== wanted.join()) complaints.push(`requests: ${title}: ${asked.join()} instead of ${wanted.join()}`);
    await context.close();
  }
}

// The pictures of the guide, light and dark.
async function pictures(browser) {
  const { smaller } = await import("./png.mjs");
  const all = [["overview", config.docs, 700], ["stage", config.docs + "stages/stage/?id=0", 700], ["master", config.master + "clean/", 560]];
  for (const dark of [false, true]) {
    for (const [title, url, height] of all) {
      const context = await browser.newContext({ viewport: { width: 1000, height }, colorScheme: dark ? "dark" : "light" });
      const page = await context.newPage();
      await page.goto(url);
      writeFileSync(`${config.pictures}/${title}${dark ? "-dark" : ""}.png`, smaller(await page.screenshot()));
      await context.close();
    }
  }
}

const browser = await chromium.launch({
  executablePath: config.chromium,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
try {
  const only = process.env.FIRESTEEL_PAGES_ONLY;
  const looks = pages.filter(([title]) => !only || new RegExp(only).test(title)).flatMap(([title, url]) => [
    ...[false, true].flatMap((dark) => [400, 1600].map((width) => [title, url, { dark, width, script: true }])),
    ...[400, 1600].map((width) => [title, url, { dark: width === 400, width, script: false }]),
    // The widest tables, on a small notebook.
    ...(title === "live-executors" ? [[title, url, { dark: false, width: 1100, script: true }]] : []),
    ...(title === "master" ? [[title, url, { dark: false, width: 920, script: true }]] : []),
  ]);
  // axe keeps one processor busy: as many looks at once as there are processors.
  await Promise.all(Array.from({ length: availableParallelism() }, async () => {
    for (let next = looks.shift(); next; next = looks.shift()) await look(browser, ...next);
  }));
  for (const [title, check] of [["follows", follows], ["connects", connects], ["keeps", keeps], ["kills", kills], ["master", master], ["requests", requests]]) {
    if (!only || new RegExp(only).test(title)) { await check(browser); checked += 1; }
  }
  if (config.pictures) await pictures(browser);
} finally {
  await browser.close();
}
if (looked + checked === 0) complaints.push(`FIRESTEEL_PAGES_ONLY=${process.env.FIRESTEEL_PAGES_ONLY} is no page and no check`);
console.log(`${looked} looks at ${pages.length} pages, ${complaints.length} complaints`);
complaints.forEach((complaint) => console.log(complaint));
process.exit(complaints.length ? 1 : 0);
