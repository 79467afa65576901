// The section of the page about counters, gauges and histograms. `page` has what page.js has to draw
// with.

"use strict";
const instruments = (data, page) => {
  const { axis, cell, chart, colour, count, digits, el, NB, plural, round, section, table, ticks,
    time, visible, words } = page;
  const MOST = 48;
  const LINES = 6;
  const { first_ns, interval_ns, series, left_out } = data.instruments;
  const unit = (one) => {
    const text = visible(one.unit || " ").trim();
    return one.kind === "counter" ? (text ? text + " " : "") + "a second" : text;
  };
  const amount = (n) => (n === null || n === undefined ? ""
    : Math.abs(n) >= 1e4 || Number.isInteger(n) || n === 0
      ? (Math.abs(n) >= 1e15 ? n.toExponential(3) : Math.abs(n) >= 1e7 ? digits(n / 1e6) + NB + "M" : count(Math.round(n)))
      : Math.abs(n) >= 0.01 ? digits(n) : n.toPrecision(2));
  const tags = (one) => visible(one.tags || " ").trim();
  const place = (one) => [visible(one.source), one.process !== null ? "process " + visible(one.process) : ""]
    .filter((it) => it).join(", ");
  // A chart for each instrument, and for each series of a histogram.
  const groups = new Map();
  for (const one of series.filter((it) => it.lines.length > 0)) {
    const key = JSON.stringify([one.source, one.name, one.process, one.session,
      one.percentiles ? one.tags : null]);
    groups.set(key, (groups.get(key) || []).concat([one]));
  }
  const NAMES = ["p50", "p95", "p99"];
  const grid = el("div", { class: "grid" });
  for (const group of [...groups.values()].slice(0, MOST)) {
    const one = group[0];
    const shown = one.percentiles
      ? one.lines.map((points, i) => [NAMES[i], points])
      : group.slice().sort((a, b) => b.mean - a.mean).slice(0, LINES)
        .map((it) => [tags(it), it.lines[0]]);
    const at = [...new Set(shown.flatMap(([, points]) => points.map(([x]) => x)))]
      .sort((a, b) => a - b);
    const values = shown.map(([, points]) => {
      const known = new Map(points);
      return at.map((x) => (known.has(x) ? known.get(x) : null));
    });
    const xs = at.map((x) => (first_ns + (x + 0.5) * interval_ns) / 1e9);
    const range = [Math.min(data.first.since_start_ns / 1e9, xs[0]),
      Math.max(data.last.since_start_ns / 1e9, xs[xs.length - 1])];
    if (range[0] === range[1]) range[1] += 1;
    const now = el("small", { class: "now" });
    const legend = shown.length > 1 ? el("div", { class: "keys" },
      shown.map(([name], i) => el("span", {},
        el("span", { class: "swatch", style: { background: "var(--c" + i + ")" } }), name || "no tags")),
      group.length > shown.length && !one.percentiles
        ? el("span", {}, "and " + (group.length - shown.length) + " more") : null) : null;
    const node = el("div", { class: "chart", role: "img", "aria-label": visible(one.name) +
      " over time; the table below has the numbers" });
    grid.append(el("div", { class: "cell" },
      el("h3", {}, visible(one.name),
        el("small", {}, [place(one), one.percentiles || group.length === 1 ? tags(one) : "", unit(one)]
          .filter((it) => it).join(", "))),
      node, el("div", { class: "under" }, legend, now)));
    chart(node, (into, width) => new uPlot({
      width, height: 130, legend: { show: false }, padding: [8, 14, 0, 0],
      cursor: { drag: { x: false, y: false }, y: false },
      scales: { x: { time: false, range },
        y: { range: (_, least, most) => (least === null ? [0, 1]
          : [Math.min(0, least), most > Math.min(0, least) ? most * (most > 0 ? 1.08 : 0.92) : 1]) } },
      axes: [axis({ values: ticks, size: 28, space: 60 }), axis({ size: 52, space: 26, values: round })],
      series: [{}, ...shown.map((_, i) => ({ stroke: colour("--c" + i), width: 1.5, spanGaps: true,
        points: { show: at.length < 40, size: 4, fill: colour("--c" + i) } }))],
      hooks: { setCursor: [(u) => {
        const i = u.cursor.idx;
        now.textContent = i === null || i === undefined ? "" : "at " + time(xs[i] * 1e9) + ": " +
          values.filter((line) => line[i] !== null).map((line) => amount(line[i])).join(", ");
      }] },
    }, [xs, ...values], into));
  }
  const label = (one) => [...words(one.name), one.tags ? " " + tags(one) : "",
    el("small", {}, [place(one), one.kind, unit(one)].filter((it) => it).join(", "))];
  const value = (n) => (n === null ? "" : cell(n, amount));
  const plain = series.filter((one) => !one.percentiles);
  const histograms = series.filter((one) => one.percentiles);
  section("instruments", "Counters, gauges and histograms",
    "What the trace has recorded of them. Counters are shown by how much they grow in a second. " +
    "Percentiles are those of each interval that was reported" +
    (histograms.length > 0 ? "; the table has the highest ones" : "") + ".",
    grid,
    groups.size > MOST ? el("p", { class: "note" }, "And " +
      plural(groups.size - MOST, "more chart") + ", whose numbers are in the table.") : null,
    plain.length > 0 ? table("Counters and gauges", [["Instrument", "row"], ["Last", "n"], ["Mean", "n"],
      ["Lowest", "n"], ["Highest", "n"], ["Total", "n"]],
    plain.map((one) => [label(one), value(one.last), value(one.mean), value(one.lowest),
      value(one.highest), value(one.total)])) : [],
    histograms.length > 0 ? table("Histograms", [["Instrument", "row"], ["Values", "n"], ["Mean", "n"],
      ["p50", "n"], ["p95", "n"], ["p99", "n"]],
    histograms.map((one) => [label(one), value(one.values), value(one.mean),
      ...one.percentiles.map(value)])) : [],
    left_out > 0 ? el("p", { class: "note" }, "And " + plural(left_out, "more series", "more series") +
      ".") : null);
};
