// Opens files in speedscope's page, in headless Chromium as people do, and prints one line of JSON
// for each: what the page says, and the profiles that it exports.
//
// node speedscope_page.mjs CACHE CHROMIUM FILE…
// CACHE is the folder into which npm has installed playwright-core and speedscope.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [cache, chromiumPath, ...files] = process.argv.slice(2);
const { chromium } = createRequire(resolve(cache) + "/")("playwright-core");
const page = resolve(cache, "node_modules/speedscope/dist/release/index.html");
const timeout = 300000;
const browser = await chromium.launch({
  executablePath: chromiumPath,
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
  timeout,
});
for (const file of files) {
  const tab = await browser.newPage();
  tab.setDefaultTimeout(timeout);
  const result = { logs: [], says: null, exported: null };
  tab.on("console", (message) => result.logs.push(message.text()));
  await tab.goto(pathToFileURL(page).href);
  if (!await tab.evaluate(() => document.createElement("canvas").getContext("webgl"))) {
    result.says = "no WebGL";
  } else {
    const says = tab.waitForEvent("dialog", { timeout: 0 }).then((dialog) => {
      result.says = dialog.message();
      return dialog.dismiss();
    }, () => {});
    await tab.locator("input[type=file]").setInputFiles(file);
    const button = tab.getByText("Export");
    const wrong = tab.getByText("Something went wrong");
    await Promise.race([says, button.or(wrong).first().waitFor()]);
    if (result.says === null && await wrong.count() > 0) result.says = "Something went wrong";
    if (result.says === null) {
      const [download] = await Promise.all([tab.waitForEvent("download"), button.click()]);
      result.exported = JSON.parse(readFileSync(await download.path(), "utf8"));
    }
  }
  console.log(JSON.stringify(result));
  await tab.close();
}
await browser.close();
