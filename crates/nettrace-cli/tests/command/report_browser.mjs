// Opens pages in headless Chromium as people do, and prints one line of JSON for each.
//
// node report_browser.mjs CACHE CHROMIUM PAGE…
// CACHE is the folder into which npm has installed playwright-core. If the variable NETTRACE_SCREENS
// names a folder, it gets a picture of each page: at 1280 and 390 pixels, light and dark.
import { createRequire } from "node:module";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [cache, chromiumPath, ...pages] = process.argv.slice(2);
const { chromium } = createRequire(resolve(cache) + "/")("playwright-core");
const screens = process.env.NETTRACE_SCREENS;
const browser = await chromium.launch({
  executablePath: chromiumPath,
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});
for (const page of pages) {
  const result = { page, problems: [], requests: [], widths: {}, facts: {}, tables: {}, load_ms: [] };
  for (const [width, colorScheme] of [[1280, "light"], [390, "dark"]]) {
    const context = await browser.newContext({ viewport: { width, height: 844 }, colorScheme });
    const tab = await context.newPage();
    tab.on("console", (message) => result.problems.push(message.text()));
    tab.on("pageerror", (error) => result.problems.push(String(error.stack)));
    const url = pathToFileURL(resolve(page)).href;
    tab.on("request", (request) => {
      if (request.url() !== url) result.requests.push(request.url());
    });
    const begin = Date.now();
    await tab.goto(url);
    await tab.waitForSelector("html[data-ready=yes]", { timeout: 20000, state: "attached" });
    result.load_ms.push(Date.now() - begin);
    if (screens) {
      // As it opens, and with the first tree of spans.
      await tab.evaluate(() => {
        const tree = document.querySelector("details.tree");
        if (tree) tree.open = true;
      });
      for (const theme of ["light", "dark"]) {
        await tab.emulateMedia({ colorScheme: theme });
        await tab.waitForTimeout(150);
        await tab.waitForFunction(() => [...document.querySelectorAll(".flame")]
          .every((it) => it.querySelector("g.frame[tabindex]")));
        const name = basename(page, ".html") + "-" + width + "-" + theme + ".png";
        await tab.screenshot({ path: join(screens, name), fullPage: true });
      }
      await tab.emulateMedia({ colorScheme });
    }
    // Everything that can be opened, chosen and enlarged.
    await tab.evaluate(() => document.querySelectorAll("details").forEach((it) => { it.open = true; }));
    const select = await tab.$("select");
    if (select) await select.selectOption({ index: (await select.$$("option")).length - 1 });
    const frames = await tab.$$("#flame g.frame");
    if (frames.length > 1) {
      await frames[1].focus();
      await tab.keyboard.press("Enter");
      await tab.waitForTimeout(50);
      result.enlarged = await tab.evaluate(() => {
        const frames = [...document.querySelectorAll("#flame g.frame rect")];
        return frames.some((it) => Math.abs(it.getBoundingClientRect().width -
          document.querySelector(".flame").clientWidth) < 2);
      });
    }
    await tab.waitForTimeout(100);
    result.widths[width] = await tab.evaluate(() => document.documentElement.scrollWidth);
    const paper = () => tab.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const before = await paper();
    await tab.click("#theme");
    if (before === await paper()) result.problems.push("the theme does not switch");
    // A chart that shows nothing has one colour.
    const blank = await tab.evaluate(() => [...document.querySelectorAll("canvas")].filter((it) => {
      const { data } = it.getContext("2d").getImageData(0, 0, it.width, it.height);
      return !data.some((byte) => byte !== 0);
    }).length);
    if (blank > 0) result.problems.push(blank + " charts are blank");
    const mute = await tab.evaluate(() => [...document.querySelectorAll(".flame g.frame")].filter(
      (it) => it.querySelector("title").textContent !== it.getAttribute("aria-label")).length);
    if (mute > 0) result.problems.push(mute + " frames say one thing and show another");
    const read = await tab.evaluate(() => ({
      title: document.getElementById("title").textContent,
      alerts: [...document.querySelectorAll(".alert strong")].map((it) => it.textContent),
      headings: [...document.querySelectorAll("h1, h2, h3")].map((it) => it.tagName),
      facts: Object.fromEntries([...document.querySelectorAll("[data-fact]")]
        .map((it) => [it.dataset.fact, +it.dataset.value])),
      shown: Object.fromEntries([...document.querySelectorAll("[data-fact]")]
        .map((it) => [it.dataset.fact, it.firstChild.textContent])),
      tables: Object.fromEntries([...document.querySelectorAll("section")].map((section) => [
        section.id, [...section.querySelectorAll("table:not(.u-legend)")].map((table) =>
          [...table.querySelectorAll("tbody tr")].map((row) => [...row.children].map((cell) =>
            (cell.dataset.value === undefined ? cell.textContent : +cell.dataset.value))))])),
      roots: [...document.querySelectorAll("details.tree")]
        .map((it) => [it.dataset.root, +it.dataset.value, it.querySelectorAll("li").length]),
      charts: [...document.querySelectorAll("#instruments h3")].map((it) => it.firstChild.textContent),
      unnamed: [...document.querySelectorAll("button, select, a, [role=img], [role=button]")]
        .filter((it) => !(it.textContent.trim() || it.getAttribute("aria-label"))).length,
    }));
    for (const key of Object.keys(result.read || {})) {
      const [wide, narrow] = [result.read, read].map((it) => JSON.stringify(it[key]));
      if (wide === narrow) continue;
      const at = [...wide].findIndex((c, i) => c !== narrow[i]);
      result.problems.push(`${key} differs: ${wide.slice(at - 50, at + 50)} is at ${width} pixels ${
        narrow.slice(at - 50, at + 50)}`);
    }
    result.read = read;
    await context.close();
  }
  console.log(JSON.stringify(result));
}
await browser.close();
