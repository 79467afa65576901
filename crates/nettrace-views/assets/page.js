"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("main");

  // Text and elements. Text of the trace only ever becomes text nodes and attributes.
  const el = (tag, props, ...children) => {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(props || {})) {
      if (key === "class") node.className = value;
      else if (key === "style") Object.assign(node.style, value);
      else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (value !== undefined && value !== null) node.setAttribute(key, value);
    }
    for (const child of children.flat()) {
      if (child !== null && child !== undefined) node.append(child);
    }
    return node;
  };
  const visible = (text) =>
    text === "" ? "(no name)" : text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069]/g,
      (c) => "\\u{" + c.codePointAt(0).toString(16) + "}");
  // A name that can be broken between its words.
  const words = (text) => visible(text)
    .replace(/[._:-](?=.)|.(?=\/)|[a-z0-9](?=[A-Z])/g, "$&\0").split("\0")
    .flatMap((part, i) => (i > 0 ? [el("wbr"), part] : [part]));

  // Numbers.
  const whole = new Intl.NumberFormat("en-US");
  const count = (n) => whole.format(n);
  const digits = (n, most = 3) => {
    const size = Math.abs(n);
    const decimals = size >= 100 || n === 0 ? 0 : size >= 10 ? 1 : 2;
    return n.toLocaleString("en-US", {
      minimumFractionDigits: Math.min(decimals, most - 1),
      maximumFractionDigits: Math.min(decimals, most - 1),
    });
  };
  const NB = "\u00a0";
  const time = (ns) => {
    if (!data.has_clock) return count(Math.round(ns)) + NB + "ticks";
    const size = Math.abs(ns);
    if (size >= 7.2e12) return digits(ns / 3.6e12) + NB + "h";
    if (size >= 1.2e11) return digits(ns / 6e10) + NB + "min";
    for (const [unit, length] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
      if (size >= length) return digits(ns / length) + NB + unit;
    }
    return count(Math.round(ns)) + NB + "ns";
  };
  const bytes = (n) => {
    for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
      if (n >= size) return digits(n / size) + NB + unit;
    }
    return count(n) + NB + "B";
  };
  const rate = (n) => (n >= 1e6 ? digits(n / 1e6) + NB + "M" : n >= 1e4 ? digits(n / 1e3) + NB + "k"
    : n >= 10 || n === 0 ? count(Math.round(n)) : digits(n));
  // For axes, whose numbers are round.
  const round = (_, values) => values.map((n) => (n === null ? null
    : n >= 1e6 ? +(n / 1e6).toFixed(3) + NB + "M" : n >= 1e4 ? +(n / 1e3).toFixed(3) + NB + "k"
      : +n.toFixed(3) + ""));
  const percent = (part, all) => {
    const share = all > 0 ? (100 * part) / all : 0;
    return (share > 0 && share < 0.01 ? "<" + NB + "0.01" : digits(share)) + NB + "%";
  };
  const plural = (n, one, many) => count(n) + " " + (n === 1 ? one : many || one + "s");

  // The frame of the page.
  document.getElementById("title").textContent = visible(data.title);
  const sections = [];
  const section = (id, title, lead, ...children) => {
    sections.push([id, title]);
    const heading = el("h2", { id: id + "-title" }, title);
    const node = el("section", { id, "aria-labelledby": id + "-title" }, heading,
      lead ? el("p", { class: "lead" }, lead) : null, ...children);
    main.append(node);
    return node;
  };
  const table = (caption, columns, rows, more) => {
    const head = el("tr", {}, columns.map(([name, kind]) =>
      el("th", { scope: "col", class: kind === "n" ? "n" : "" }, name)));
    const body = rows.map((row) => el("tr", {}, row.map((cell, index) => {
      const kind = columns[index][1];
      const node = kind === "row" ? el("th", { scope: "row", class: "name" }, cell)
        : el("td", { class: kind || "" }, cell);
      // The number itself, for what reads the page.
      if (Array.isArray(cell) && cell.value !== undefined) node.dataset.value = cell.value;
      return node;
    })));
    const node = el("table", {}, el("caption", {}, caption), el("thead", {}, head),
      el("tbody", {}, body));
    const wide = el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
      node);
    return [wide, more ? el("p", { class: "note" }, more) : null];
  };
  // A cell that shows a number, and keeps it as it is.
  const cell = (value, show = count) => Object.assign([show(value)], { value });
  const named = (text, provider) => [words(text), el("small", {}, visible(provider))].flat();

  // Charts follow the theme and the width.
  const charts = [];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const draw = (chart) => {
    if (!chart.node.isConnected) return;
    const width = Math.floor(chart.node.clientWidth);
    if (width <= 0) return;
    chart.clear();
    chart.make(width);
    // uPlot's legend is no table of data.
    chart.node.querySelectorAll("table.u-legend")
      .forEach((legend) => legend.setAttribute("role", "presentation"));
  };
  const chart = (node, make) => {
    const it = { node, clear: () => node.replaceChildren(), make: (width) => make(node, width) };
    charts.push(it);
    return it;
  };
  const redraw = () => charts.forEach(draw);
  let width = 0;
  const resized = new ResizeObserver(() => {
    if (main.clientWidth !== width) {
      width = main.clientWidth;
      requestAnimationFrame(redraw);
    }
  });

  const axis = (more) => ({
    stroke: colour("--soft"), font: "12px system-ui, sans-serif",
    grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false }, ...more,
  });
  // Seconds since the start, as many decimals as neighbours need to differ.
  const ticks = (_, values) => {
    const step = values.length > 1 ? values[1] - values[0] : 1;
    const unit = !data.has_clock ? ["", 1e-9] : step >= 60 ? ["min", 60] : step >= 0.1 ? ["s", 1]
      : step >= 1e-4 ? ["ms", 1e-3] : ["µs", 1e-6];
    return values.map((value) => (value === null ? null
      : +(value / unit[1]).toFixed(3) + (unit[0] ? NB + unit[0] : "")));
  };

  // A legend shows values only of the place that is pointed to.
  const pointed = (u) => u.root.classList.toggle("idle", u.cursor.idx === null || u.cursor.idx === undefined);

  overview();
  rates();
  latencies();
  errors();
  messages();
  slowest();
  cut();
  if (data.flame) {
    flame("flame", "Flame graph of spans",
      "Where the time of spans went: own time, by the path of names from the root. A span's own " +
      "time is the time in which no child was under way, so children that run at the same time " +
      "add up. Choose a frame to enlarge it.", data.flame, time, "own time");
  }
  if (data.samples) {
    flame("samples", "Flame graph of samples",
      "Samples of the trace, by their stacks: a frame is as wide as the samples in it and in what " +
      "it called. Choose a frame to enlarge it.", data.samples, count, "samples");
  }
  if (data.instruments) {
    instruments(data, { axis, cell, chart, colour, count, digits, el, NB, plural, round, section, table, ticks,
      time, visible, words });
  }
  types();
  threads();
  const nav = document.getElementById("nav");
  nav.append(...sections.map(([id, title]) => el("a", { href: "#" + id }, title)));
  document.getElementById("footer").append("Made by nettrace " + data.version +
    (data.followed ? ". It asks its own server for a newer page, and nobody else."
      : ". This file holds all of its data and requests nothing."));
  theme();
  resized.observe(main);
  width = main.clientWidth;
  const again = data.followed ? follow() : null;
  redraw();
  if (again) again();
  document.documentElement.dataset.ready = "yes";

  // A server replaces the page while the trace grows. What was chosen, opened and read stays.
  function follow() {
    const { number, made_unix_ms, every_ms } = data.followed;
    const asOf = "as of " + new Date(made_unix_ms).toLocaleTimeString();
    const state = el("small", { id: "as-of", role: "status" }, asOf);
    document.getElementById("title").after(state);
    const key = "nettrace" + location.pathname;
    const which = document.getElementById("which");
    const of = (details) => [details.closest("section") && details.closest("section").id,
      details.querySelector("summary").textContent].join(" ");
    const opened = () => [...document.querySelectorAll("details")];
    const keep = () => {
      const chosen = which && data.latencies[which.value];
      sessionStorage.setItem(key, JSON.stringify({ y: scrollY,
        chosen: chosen ? [chosen.provider, chosen.name] : [],
        open: opened().filter((it) => it.open).map(of) }));
    };
    const ask = async () => {
      if (!document.hidden && getSelection().isCollapsed) {
        try {
          const answer = await fetch(location.pathname, { method: "HEAD", cache: "no-store" });
          state.textContent = asOf;
          if (answer.ok && answer.headers.get("ETag") !== '"' + number + '"') {
            keep();
            location.reload();
            return;
          }
        } catch {
          state.textContent = asOf + "; its server does not answer any more";
        }
      }
      setTimeout(ask, every_ms);
    };
    setTimeout(ask, every_ms);
    const before = JSON.parse(sessionStorage.getItem(key) || "null");
    if (!before) return null;
    sessionStorage.removeItem(key);
    history.scrollRestoration = "manual";
    const place = data.latencies.findIndex((it) =>
      it.provider === before.chosen[0] && it.name === before.chosen[1]);
    if (which && place >= 0) which.value = place;
    return () => {
      opened().forEach((it) => { if (before.open.includes(of(it))) it.open = true; });
      scrollTo(0, before.y);
    };
  }

  function overview() {
    const alerts = document.getElementById("alerts");
    const alert = (kind, strong, text) =>
      alerts.append(el("div", { class: "alert " + kind, role: "alert" },
        el("strong", {}, strong), text));
    if (data.damage !== null) {
      alert("bad", "The trace is cut short or damaged.",
        "This report has everything before the damage: " + visible(data.damage) + ".");
    }
    if (data.lost > 0) {
      alert("bad", plural(data.lost, "event was", "events were") + " lost.",
        percent(data.lost, data.lost + data.events) + " of what was recorded is missing." +
        (data.step_backs > 0 ? " Sequence numbers went back, so the number is not reliable." : ""));
    }
    if (data.notes.length > 0) {
      alerts.append(el("div", { class: "alert" }, el("strong", {}, "Not everything is shown."),
        data.notes.map((note) => el("div", {}, visible(note)))));
    }
    const length = data.last ? data.last.since_start_ns - data.first.since_start_ns : 0;
    const fact = (id, name, value, shown, small, bad) =>
      el("div", bad ? { class: "bad" } : {}, el("dt", {}, name),
        el("dd", { "data-fact": id, "data-value": value }, shown,
          small ? el("small", {}, small) : null));
    const average = length > 0 ? rate(data.events / (length / 1e9)) + " a second" : null;
    const facts = el("dl", { class: "facts" },
      fact("events", "Events", data.events, count(data.events), data.has_clock ? average : null),
      fact("lost", "Lost", data.lost, count(data.lost),
        data.lost > 0 ? percent(data.lost, data.lost + data.events) : "none", data.lost > 0),
      fact("length", "From first to last event", length, time(length)),
      fact("spans", "Spans", data.spans, count(data.spans),
        data.spans_without_end + data.spans_without_start > 0
          ? count(data.spans_without_end) + " without end, " + count(data.spans_without_start) +
            " without start" : null),
      fact("threads", "Threads", data.threads.length + data.other_threads.rows,
        count(data.threads.length + data.other_threads.rows)),
      fact("bytes", "Size", data.bytes, bytes(data.bytes),
        bytes(data.payload_bytes) + " of payloads"));
    const line = (name, text) => (text === null || text === undefined ? null
      : [name, text]);
    const rows = [
      line("Format", data.format),
      line("Start of the trace", data.start),
      line("First event", data.first && data.first.time),
      line("Last event", data.last && data.last.time),
      line("Size", count(data.bytes) + " bytes"),
      line("Payloads", count(data.payload_bytes) + " bytes"),
      line("Spans without an end", count(data.spans_without_end)),
      line("Spans without a start", count(data.spans_without_start)),
      data.undefined_stacks > 0
        ? line("Events whose stack is not defined", count(data.undefined_stacks)) : null,
      ...data.key_values.map(([key, value]) => line(visible(key), visible(value))),
    ].filter((row) => row !== null);
    section("overview", "Overview", null, facts,
      el("details", {}, el("summary", {}, "All facts"),
        table("About the trace", [["Fact", "row"], ["Value", ""]], rows)));
  }

  function rates() {
    if (!data.rate) return;
    const MOST = 6;
    const { providers, first_ns, interval_ns } = data.rate;
    const length = providers[0].counts.length;
    const lines = providers.slice(0, MOST);
    const rest = providers.slice(MOST).concat(data.rate.others ? [data.rate.others] : []);
    if (rest.length > 0) {
      lines.push({
        name: "(" + plural(rest.length, "other provider") + ")",
        events: rest.reduce((sum, line) => sum + line.events, 0),
        counts: Array.from({ length }, (_, i) => rest.reduce((sum, line) => sum + line.counts[i], 0)),
      });
    }
    const per = data.has_clock ? interval_ns / 1e9 : 1;
    const xs = Array.from({ length }, (_, i) => (first_ns + (i + 0.5) * interval_ns) / 1e9);
    // On top of each other: the topmost line is all events.
    const stacked = [];
    lines.reduce((below, line) => {
      const sums = line.counts.map((n, i) => n / per + below[i]);
      stacked.push(sums);
      return sums;
    }, new Array(length).fill(0));
    const node = el("div", { class: "chart", role: "img",
      "aria-label": "Events over time by provider; the table below has the numbers" });
    chart(node, (into, width) => {
      const shown = lines.map((line, i) => ({
        label: visible(line.name).slice(0, 60), stroke: colour("--c" + i), width: 1.5,
        fill: colour("--c" + i), points: { show: length < 3 },
        paths: length > 1 ? uPlot.paths.stepped({ align: 1 }) : undefined,
        value: (_, __, ___, at) => (at === null || at === undefined ? "–" : rate(line.counts[at] / per)),
      }));
      // The topmost is drawn first, so that the others stay visible.
      const order = lines.map((_, i) => i).reverse();
      new uPlot({
        width, height: width < 500 ? 220 : 280, legend: { live: width >= 500 },
        cursor: { drag: { x: true, y: false } }, hooks: { setCursor: [pointed], ready: [pointed] },
        scales: { x: { time: false }, y: { range: (_, __, most) => [0, most > 0 ? most * 1.05 : 1] } },
        axes: [axis({ values: ticks, size: 30 }), axis({ size: 56, values: round })],
        series: [{ label: "Time", value: (_, value) => (value === null ? "–" : time(value * 1e9)) },
          ...order.map((i) => shown[i])],
      }, [xs, ...order.map((i) => stacked[i])], into);
    });
    const peak = (line) => Math.max(...line.counts) / per;
    const all = providers.concat(data.rate.others ? [data.rate.others] : []);
    const rows = all.map((line, i) => [
      [el("span", { class: "swatch", style: { background: "var(--c" + Math.min(i, MOST) + ")" } }),
        words(line.name)].flat(),
      cell(line.events), percent(line.events, data.events), rate(peak(line)),
    ]);
    const unit = data.has_clock ? " a second" : " an interval";
    section("rate", "Events over time",
      "Events" + unit + ", by provider, one on top of the other; each point is " +
      time(interval_ns) + ". Drag to enlarge, double-click to go back.", node,
      table("Providers", [["Provider", "row"], ["Events", "n"], ["Share", "n"],
        ["Highest rate" + unit, "n"]], rows),
      el("details", {}, el("summary", {}, "Events in each interval"), table(
        "Events in each interval", [["From", "row"], ["Events", "n"]],
        // The first interval begins at a round number, before the first event.
        xs.map((_, i) => [time(Math.max(first_ns + i * interval_ns, data.first.since_start_ns)),
          cell(all.reduce((sum, line) => sum + line.counts[i], 0))]))));
  }

  function latencies() {
    if (data.latencies.length === 0) return;
    const select = el("select", { id: "which", "aria-label": "Name of the spans" },
      data.latencies.map((it, i) => el("option", { value: i },
        visible(it.name).slice(0, 80) + " (" + count(it.count) + ")")));
    const node = el("div", { class: "chart", role: "img", "aria-label":
      "Histogram of durations; the table below has the numbers" });
    const numbers = el("div");
    const it = chart(node, (into, width) => {
      const latency = data.latencies[select.value];
      const bars = latency.bars;
      if (bars.length === 0) {
        into.append(el("p", { class: "note" }, "No span of this name has a known duration."));
        return;
      }
      const xs = bars.map((_, i) => i);
      const edge = (i) => (i < bars.length ? bars[i][0] : bars[bars.length - 1][1]);
      const marks = [["p50", latency.p50_ns], ["p90", latency.p90_ns], ["p99", latency.p99_ns]];
      const place = (ns) => {
        const i = bars.findIndex(([from, to]) => ns >= from && ns < to);
        if (i < 0) return bars.length - 0.5;
        return i - 0.5 + (ns - bars[i][0]) / (bars[i][1] - bars[i][0]);
      };
      new uPlot({
        width, height: width < 500 ? 200 : 240, legend: { show: false },
        cursor: { drag: { x: false, y: false }, points: { show: false } }, padding: [18, 24, 0, 0],
        scales: { x: { time: false, range: [-0.5, bars.length - 0.5] },
          y: { range: (_, __, most) => [0, most * 1.05] } },
        axes: [axis({
          size: 30, splits: () => {
            const step = Math.max(1, Math.ceil((bars.length * 70) / width));
            return Array.from({ length: Math.floor(bars.length / step) + 1 }, (_, i) => i * step - 0.5);
          },
          values: (_, values) => values.map((v) => time(edge(Math.round(v + 0.5)))),
        }), axis({ size: 56, incrs: [1, 2, 5, 10, 20, 50].concat(
          Array.from({ length: 12 }, (_, i) => [1, 2, 5].map((n) => n * 10 ** (i + 2))).flat()),
        values: round })],
        series: [{}, { label: "Spans", stroke: colour("--c0"), fill: colour("--c0") + "b0",
          paths: uPlot.paths.bars({ size: [0.98, Infinity] }), points: { show: false } }],
        hooks: { draw: [(u) => {
          const { ctx, bbox } = u;
          ctx.save();
          ctx.strokeStyle = ctx.fillStyle = colour("--ink");
          ctx.font = 12 * devicePixelRatio + "px system-ui, sans-serif";
          ctx.textAlign = "center";
          ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
          let right = -Infinity;
          for (const [name, ns] of marks) {
            const x = u.valToPos(place(ns), "x", true);
            ctx.beginPath();
            ctx.moveTo(x, bbox.top);
            ctx.lineTo(x, bbox.top + bbox.height);
            ctx.stroke();
            const half = ctx.measureText(name).width / 2;
            if (x - half > right) {
              ctx.fillText(name, x, bbox.top - 5 * devicePixelRatio);
              right = x + half + 4;
            }
          }
          ctx.restore();
        }] },
      }, [xs, bars.map((bar) => bar[2])], into);
      numbers.replaceChildren(el("details", {}, el("summary", {}, "Numbers of the histogram"),
        table("Spans by duration: " + visible(latency.name),
          [["From", "row"], ["To", "n"], ["Spans", "n"]],
          bars.filter((bar) => bar[2] > 0)
            .map((bar) => [time(bar[0]), time(bar[1]), cell(bar[2])]))));
    });
    select.addEventListener("change", () => draw(it));
    const rough = data.latencies.some((latency) => !latency.is_exact);
    const bad = (outcome) => !["ok", "", "Ok", "success"].includes(outcome);
    // Columns that say the same of every name, or nothing, are left out.
    const hasPolls = data.latencies.some((it) => it.longest_poll_ns !== null);
    const hasServices = data.latencies.some((it) => it.service !== data.latencies[0].service);
    const shown = (_, i) => (i !== 10 || hasPolls) && (i !== 11 || hasServices);
    const known = (latency, nanos) => (latency.count > 0 ? cell(nanos, time) : "");
    const rows = data.latencies.map((latency, i) => [
      [el("button", { type: "button", class: "link", title: "Show the histogram",
        onclick: () => { select.value = i; draw(it); node.scrollIntoView({ block: "center" }); },
      }, words(latency.name)), el("small", {}, visible(latency.provider))],
      cell(latency.count), known(latency, latency.p50_ns), known(latency, latency.p90_ns),
      known(latency, latency.p99_ns), known(latency, latency.max_ns),
      known(latency, latency.total_ns), known(latency, latency.own_ns),
      latency.busy_ns !== null ? cell(latency.busy_ns, time) : "",
      latency.polls !== null ? cell(latency.polls) : "",
      latency.longest_poll_ns !== null ? cell(latency.longest_poll_ns, time) : "",
      latency.service ? visible(latency.service) : "",
      latency.outcomes.filter(([outcome]) => bad(outcome)).map(([outcome, n]) =>
        el("span", { class: "outcome bad" }, count(n) + " " + visible(outcome) + " ")).concat(
        latency.open > 0 ? [el("span", { class: "outcome" }, count(latency.open) + " no end")] : []),
    ].filter(shown));
    section("latency", "Span latencies",
      "How long spans took, by name; the name with the most time first. A percentile is the " +
      "shortest duration that so many of the spans do not exceed." +
      (rough ? " For the names with the most spans it can be up to 1/128 too high." : ""),
      el("div", { class: "pair" }, el("label", { for: "which" }, "Histogram of"), select), node,
      numbers,
      table("Durations by name", [["Span", "row"], ["Spans", "n"], ["p50", "n"], ["p90", "n"],
        ["p99", "n"], ["Longest", "n"], ["Total", "n"], ["Own", "n"], ["Busy", "n"],
        ["Polls", "n"], ["Longest poll", "n"], ["Service", ""], ["Not ok", "nowrap"]]
        .filter(shown), rows,
      data.other_latencies > 0
        ? "And " + plural(data.other_latencies, "more name") + " with less time." : null));
  }

  function errors() {
    groups("errors", "Errors and warnings",
      "Events of these levels, and spans that failed, by what they say and where. A message has " +
      "# for its numbers. The trace is that of the first.", data.errors, data.other_errors);
  }

  function messages() {
    groups("messages", "Messages",
      "What tracing and log say below a warning, by message. It has # for its numbers. The trace " +
      "is that of the first.", data.messages, data.other_messages);
  }

  function groups(id, title, lead, list, beyond) {
    if (list.length === 0) return;
    const bars = (counts) => {
      const parts = Math.min(32, counts.length);
      const sums = new Array(parts).fill(0);
      counts.forEach((n, i) => { sums[Math.floor((i * parts) / counts.length)] += n; });
      const top = Math.max(1, ...sums);
      return el("span", { class: "spark", "aria-hidden": "true" },
        sums.map((n) => el("i", { style: { height: (n === 0 ? 0 : Math.max(12, (100 * n) / top)) + "%" } })));
    };
    const MOST = 200;
    const color = { Warning: " warn", INFO: "", DEBUG: " dim", TRACE: " dim", LOG: "" };
    const rows = list.slice(0, MOST).map((it) => [
      (it.target
        ? [el("div", { title: visible(it.example) }, visible(it.shape)),
          el("small", { title: visible(it.name) }, visible(it.target))]
        : [el("strong", {}, words(it.name)), el("small", {}, visible(it.provider)),
          it.shape ? el("div", { title: visible(it.example) }, visible(it.shape)) : null])
        .flat().filter((part) => part),
      el("span", { class: "outcome" + (it.what in color ? color[it.what] : " bad") },
        visible(it.what)),
      cell(it.count), cell(it.first_ns, time), cell(it.last_ns, time), bars(it.counts),
      [it.place ? visible(it.place) + " " : null,
        el("span", { class: "ids" }, it.trace || it.span || "")].filter((part) => part),
    ]);
    const others = list.slice(MOST).reduce((sum, it) => sum + it.count, beyond);
    section(id, title, lead,
      table(title, [["What", "row"], ["", "nowrap"], ["Count", "n"],
        ["First", "n"], ["Last", "n"], ["Over time", "nowrap"], ["Where, trace", ""]], rows,
      others > 0 ? "And " + plural(others, "more") + " of other kinds." : null));
  }

  function slowest() {
    if (data.slowest.length === 0) return;
    section("slowest", "Slowest spans",
      "The trees that took longest from their first start to their last stop, with the spans and " +
      "the events inside.",
      ...spanTrees(data.slowest));
  }

  function cut() {
    if (data.cut_trees === 0) return;
    section("cut", "Spans that are cut",
      plural(data.cut_trees, "root") + " whose start or end is not in the trace" +
      (data.cut.length < data.cut_trees ? ", the first " + data.cut.length + " of them" : "") +
      ". How long they took is not known.", ...spanTrees(data.cut));
  }

  // An event, which begins with the letter of its level.
  function said(text) {
    if (!/^[CEWIDTL?] /.test(text)) return visible(text);
    return [el("b", { class: "level " + (text[0] === "?" ? "other" : text[0]) }, text[0]),
      visible(text.slice(1))];
  }

  function spanTrees(list) {
    const took = (span) => (span.duration_ns !== null ? time(span.duration_ns)
      : span.at_least_ns !== null ? ">" + NB + time(span.at_least_ns) : "–");
    const outcome = (span) => {
      const text = span.outcome !== null ? span.outcome : span.state === "without_end" ? "no end"
        : span.state === "without_start" ? "no start" : null;
      return text === null ? null
        : el("span", { class: "outcome" + (["ok", "no end"].includes(text) ? "" : " bad") },
          visible(text));
    };
    const spanNode = (span, begin, length) => {
      const from = span.start_ns === null ? 0 : span.start_ns - begin;
      const long = span.duration_ns !== null ? span.duration_ns
        : span.at_least_ns !== null ? span.at_least_ns : 0;
      const left = length > 0 ? Math.min(100, Math.max(0, (100 * from) / length)) : 0;
      const wide = length > 0 ? Math.min(100 - left, (100 * long) / length) : 0;
      // Text is indented; the bars of a tree have one axis.
      const indent = { paddingLeft: Math.min(span.depth, 12) * 0.9 + "rem" };
      return el("li", {},
        el("div", { class: "head", style: indent }, el("span", { class: "took" }, took(span)),
          el("strong", {}, visible(span.name)), outcome(span),
          el("span", { class: "own" },
            [span.own_ns !== null ? "own " + time(span.own_ns) : null,
              span.start_ns !== null ? "from +" + time(span.start_ns - begin) : null,
              span.process !== null ? "process " + visible(span.process) : null,
              span.thread !== null ? "thread " + span.thread : null,
              span.depth > 12 ? "level " + span.depth : null].filter((it) => it).join(", "))),
        el("div", { class: "track", "aria-hidden": "true" },
          el("span", { style: { marginLeft: left + "%", width: wide + "%" } })),
        span.start || span.stop ? el("div", { class: "says", style: indent },
          visible([span.start, span.stop].filter((text) => text).join(" → "))) : null,
        span.events.map(([at, text]) => el("div", { class: "inside", style: indent },
          el("span", {}, "+" + time(at - begin)), el("span", {}, said(text)))),
        span.left_out > 0 ? el("div", { class: "inside", style: indent }, el("span", {}, ""),
          el("span", {}, "and " + plural(span.left_out, "more event"))) : null);
    };
    // The time of day, to the millisecond.
    const clock = (tree) => (tree.time ? tree.time.slice(11, 23) : null);
    return list.map((tree) => {
      const root = tree.spans[0];
      const length = root.duration_ns !== null ? root.duration_ns : root.at_least_ns || 0;
      const node = el("details", { class: "tree", "data-root": root.id,
        "data-value": length }, el("summary", {},
        el("span", { class: "n" }, tree.extent_ns !== null ? time(tree.extent_ns) : took(root)),
        el("span", {}, el("strong", {}, visible(root.name) + (tree.about ? " › " + visible(tree.about) : "")), " ",
          outcome(root), " ",
          el("small", { class: "ids" },
            [tree.longest ? time(tree.longest[1]) + " of it in " + visible(tree.longest[0]) : null,
              tree.within ? "within " + visible(tree.within) : null,
              clock(tree), root.process !== null ? "process " + visible(root.process) : null,
              plural(tree.spans.length + tree.left_out, "span")].filter((it) => it).join(", "))),
        el("span", { class: "ids" }, tree.trace ? "trace " + tree.trace : root.id)));
      // Long trees are drawn when somebody looks.
      node.addEventListener("toggle", () => {
        if (!node.open || node.querySelector("ul")) return;
        node.append(el("p", { class: "note" }, "Span " + root.id + " of " + visible(root.provider) +
          (tree.time ? " at " + tree.time : "") +
          (tree.trace ? ", trace " + tree.trace : "") +
          (tree.remote_parent ? ", caused by span " + tree.remote_parent + ", which is not in this tree"
            : "") +
          (tree.left_out > 0 ? ". The shortest " + plural(tree.left_out, "span") +
            " of this tree are not shown" : "") + "."));
        // From the first start to the last end: a span can outlast its root, or begin before it.
        const known = tree.spans.filter((span) => span.start_ns !== null);
        const begin = known.reduce((least, span) => Math.min(least, span.start_ns),
          root.start_ns !== null ? root.start_ns : Infinity);
        const end = known.reduce((most, span) =>
          Math.max(most, span.start_ns + (span.duration_ns || span.at_least_ns || 0)), begin);
        const axis = Number.isFinite(begin) && end > begin;
        if (axis) {
          node.append(el("div", { class: "scale", "aria-hidden": "true" }, el("span", {}, "0"),
            el("span", {}, "+" + time((end - begin) / 2)), el("span", {}, "+" + time(end - begin))));
        }
        node.append(el("ul", { class: "spans" }, tree.spans.map((span) => spanNode(span, axis ? begin : 0, axis ? end - begin : 0))));
      });
      return node;
    });
  }

  function flame(id, title, lead, frames, show, unit) {
    const tree = frames.nodes.map(([name, , value, times]) =>
      ({ name: visible(frames.names[name]), value, times, children: [] }));
    frames.nodes.forEach(([, parent], i) => { if (i > 0) tree[parent].children.push(tree[i]); });
    // What is not drawn below a frame counts as its own.
    const below = (frame) => frame.children.reduce((sum, child) => sum + child.value, 0);
    tree.forEach((frame) => { frame.all = frame.value; });
    tree[0].all = tree[0].value = frames.total;
    tree.forEach((frame) => { frame.own = Math.max(0, frame.all - below(frame)); });
    tree.forEach((frame) => { frame.value = frame.own; });
    const said = (frame) => visible(frame.name) + ": " + show(frame.all) +
      " (" + percent(frame.all, frames.total) + " of all)" +
      (unit === "own time" && frame.times > 0 ? ", " + plural(frame.times, "span") : "");
    const detail = el("div", { class: "detail", "aria-live": "polite" }, said(tree[0]));
    const node = el("div", { class: "flame" });
    const reset = el("button", { type: "button" }, "Show all");
    let graph = null;
    const colours = () => [0, 1, 2, 3, 4].map((i) => colour("--f" + i));
    chart(node, (into, width) => {
      const shades = colours();
      const shade = (name) => {
        let sum = 0;
        for (let i = 0; i < name.length; i++) sum = (sum * 31 + name.charCodeAt(i)) >>> 0;
        return shades[sum % shades.length];
      };
      graph = flamegraph.default().width(width).cellHeight(20).minFrameSize(1)
        .transitionDuration(0).inverted(true).sort((a, b) => d3.descending(a.value, b.value))
        .tooltip(false).title("").selfValue(true).label((d) => said(d.data))
        .setColorMapper((d) => shade(d.data.name))
        .onHover((d) => { detail.textContent = said(d.data); })
        .onClick((d) => { detail.textContent = said(d.data); reachable(into); });
      d3.select(into).datum(structuredClone(tree[0])).call(graph);
      reachable(into);
    });
    // Frames by keyboard: Tab goes from frame to frame, Enter enlarges one.
    const reachable = (into) => requestAnimationFrame(() => {
      const svg = into.querySelector("svg");
      if (!svg) return;
      svg.setAttribute("role", "group");
      svg.setAttribute("aria-label", title + "; the table below has the numbers");
      const frames = [...into.querySelectorAll("g.frame")];
      // The rows that are drawn, and no others.
      const rows = 1 + Math.max(0, ...frames.map((frame) => d3.select(frame).datum().depth));
      svg.setAttribute("height", 20 * rows);
      frames.forEach((frame) => {
        const d = d3.select(frame).datum();
        frame.setAttribute("tabindex", "0");
        frame.setAttribute("role", "button");
        frame.setAttribute("aria-label", said(d.data));
        frame.onfocus = () => { detail.textContent = said(d.data); };
        frame.onkeydown = (event) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          graph.zoomTo(d);
          reachable(into);
        };
      });
    });
    reset.addEventListener("click", () => { graph.resetZoom(); reachable(node); });
    const rows = frames.top.map(([frame, own, total, n]) => [words(frames.names[frame]),
      cell(own, show), percent(own, frames.total), cell(total, show), cell(n)]);
    section(id, title, lead, el("div", { class: "pair" }, reset), node, detail,
      table("Names with the most " + unit, [["Name", "row"], ["Own", "n"], ["Share", "n"],
        ["With all below", "n"], [unit === "own time" ? "Spans" : "Leaf samples", "n"]], rows,
      frames.left_out > 0
        ? "The smallest " + plural(frames.left_out, "frame") + " are not drawn." : null));
  }

  // A type and its place, which begins with its name if that is a module.
  function type(ty) {
    if (!ty.place || ty.place.startsWith(ty.name + ",")) return ty.place || ty.name;
    return ty.name + " (" + ty.place + ")";
  }

  function types() {
    if (data.types.length === 0) return;
    const most = Math.max(1, ...data.types.map((ty) => ty.payload_bytes));
    const rows = data.types.map((ty) => [
      named(type(ty), ty.provider + (ty.id > 0 ? ", id" + NB + ty.id : "")), cell(ty.events),
      cell(ty.payload_bytes, bytes), percent(ty.payload_bytes, data.payload_bytes),
      digits(ty.payload_bytes / ty.events) + NB + "B",
      ty.payload_bytes > 0 ? el("span", { "aria-hidden": "true",
        style: { width: (100 * ty.payload_bytes) / most + "%" } }) : "",
    ]);
    const others = data.other_types;
    section("types", "Largest event types", "By the bytes of their payloads.",
      table("Event types", [["Type", "row"], ["Events", "n"], ["Payloads", "n"], ["Share", "n"],
        ["Average", "n"], ["", "share"]], rows, others.rows > 0
        ? "And " + plural(others.rows, "more type") + " with " + plural(others.events, "event") +
          " and " + bytes(others.payload_bytes) + "." : null));
  }

  function threads() {
    if (data.threads.length === 0) return;
    const who = (thread) => (thread.name !== null ? visible(thread.name)
      : thread.id !== null ? "thread " + thread.id : "thread number " + thread.index);
    const active = data.threads.filter((thread) => thread.counts && thread.events > 0)
      .sort((a, b) => b.events - a.events).slice(0, 24);
    const lanes = el("div", { class: "lanes" });
    for (const thread of active) {
      const lane = el("div", { class: "lane", role: "img",
        "aria-label": "Events over time of " + who(thread) });
      lanes.append(el("div", { class: "who" }, who(thread), " ",
        el("small", {}, rate(thread.events))), lane);
      // One more, at which the last step ends.
      const counts = thread.counts.concat(thread.counts.slice(-1));
      const xs = counts.map((_, i) => data.rate.first_ns + i * data.rate.interval_ns);
      chart(lane, (into, width) => new uPlot({
        width, height: 33, legend: { show: false }, cursor: { show: false }, padding: [3, 0, 0, 0],
        scales: { x: { time: false },
          y: { distr: 1, range: (_, __, top) => [0, Math.max(1, top)] } },
        axes: [{ show: false }, { show: false }],
        series: [{}, { stroke: colour("--c0"), fill: colour("--c0") + "80", width: 1,
          points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) }],
      }, [xs, counts], into));
    }
    const rows = data.threads.map((thread) => [
      [who(thread), thread.name !== null && thread.id !== null
        ? el("small", {}, "thread " + thread.id) : null],
      thread.process_name !== null ? visible(thread.process_name)
        : thread.process === null ? "–" : String(thread.process), cell(thread.events),
      percent(thread.events, data.events), cell(thread.lost),
    ]);
    const others = data.other_threads;
    section("threads", "Threads", active.length === 0 ? null
      : "When each thread recorded events, in the intervals of the chart above; each line has a " +
        "scale of its own." + (active.length < data.threads.length + others.rows
        ? " The " + active.length + " with the most events." : ""),
    active.length === 0 ? [] : [lanes, el("h3", {}, "All threads")],
    table("Threads: those with losses first, then those with the most events",
      [["Thread", "row"], ["Process", "n"], ["Events", "n"], ["Share", "n"], ["Lost", "n"]], rows,
      others.rows > 0 ? "And " + plural(others.rows, "more thread") + " with " +
        plural(others.events, "event") + "." : null));
  }

  function theme() {
    const root = document.documentElement;
    const button = document.getElementById("theme");
    const system = matchMedia("(prefers-color-scheme: dark)");
    const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
    const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      label();
      redraw();
    });
    system.addEventListener("change", () => { label(); redraw(); });
    label();
  }
})();
