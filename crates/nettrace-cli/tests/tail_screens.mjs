// Shows in headless Chromium what a command has written to a terminal: on white, and on black. Prints
// one line of JSON for each file: how wide its two pages are.
//
// node tail_screens.mjs CACHE CHROMIUM FILE…
// CACHE is the folder into which npm has installed playwright-core. A file is called NAME.WIDTH, with
// the width in pixels. If the variable NETTRACE_SCREENS names a folder, it gets pictures of both.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join, resolve } from "node:path";

const [cache, chromiumPath, ...files] = process.argv.slice(2);
const { chromium } = createRequire(resolve(cache) + "/")("playwright-core");
const screens = process.env.NETTRACE_SCREENS;
// The foreground and background of VS Code's light theme, and those of xterm in dark.
const schemes = { light: ["#333", "#fff"], dark: ["#e5e5e5", "#000"] };

// A color of xterm's palette of 256. Those before 16 differ from theme to theme.
function color(number) {
  if (number < 16 || number > 255) throw new Error("color " + number + " is the theme's own");
  if (number >= 232) return Array(3).fill(8 + 10 * (number - 232));
  const part = (size) => [0, 95, 135, 175, 215, 255][Math.trunc((number - 16) / size) % 6];
  return [36, 6, 1].map(part);
}

function html(text) {
  const escaped = text.replace(/[&<>]/g, (c) => `&#${c.charCodeAt(0)};`);
  const colored = escaped.replace(/\x1b\[38;5;(\d+)m(.*?)\x1b\[0m/gs, (_, number, inside) =>
    `<span style="color: rgb(${color(+number)})">${inside}</span>`);
  if (colored.includes("\x1b")) throw new Error("an escape that is no color: " + text);
  return colored;
}

const browser = await chromium.launch({
  executablePath: chromiumPath,
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});
for (const file of files) {
  const [name, width] = basename(file).split(".");
  const text = html(readFileSync(file, "utf8"));
  const widths = [];
  for (const [scheme, [foreground, background]] of Object.entries(schemes)) {
    const tab = await browser.newPage({ viewport: { width: +width, height: 100 } });
    await tab.setContent(`<body style="margin: 8px; color: ${foreground}; background: ${background}">
      <pre style="margin: 0; font: 13px/1.4 monospace">${text}</pre>`);
    widths.push(await tab.evaluate(() => document.documentElement.scrollWidth));
    if (screens) {
      const path = join(screens, `${name}-${width}-${scheme}.png`);
      await tab.screenshot({ path, fullPage: true });
    }
    await tab.close();
  }
  console.log(JSON.stringify(widths));
}
await browser.close();
