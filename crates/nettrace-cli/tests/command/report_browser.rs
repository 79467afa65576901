//! Opens reports in headless Chromium, and compares what it shows with `info` and `tree`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use testkit::{
    agreed::Agreed,
    browser::{self, Browser},
    effort::left_out,
    reference::dotnet_traces,
    streams::{EventType, Row, Stream, utf16z},
};

use crate::{
    program::{nettrace, stdout, strict_json},
    spans::{PAY_START, PAY_STOP, SOLD, START, event, place, single, stop, stream},
};

/// Spans of two names, events inside, an end that is missing.
fn spans_trace() -> Vec<u8> {
    let mut events = Vec::new();
    for root in 0..60_u64 {
        let (at, id) = (100 + root * 500, 1 + root * 10);
        events.extend([
            event(at, START, place(9, id, 0)),
            event(at + 10, PAY_START, place(9, id + 1, id)),
            event(at + 15, SOLD, place(9, id + 1, id)),
            event(at + 20 + root * 3, PAY_STOP, place(9, id + 1, id)),
            single(at + 250, place(9, id + 2, id), 30, "err"),
            stop(at + 300, place(9, id, 0), 300, if root % 9 == 0 { "err" } else { "ok" }),
        ]);
    }
    events.push(event(29_000, START, place(9, 9_999, 0)));
    stream(events).end()
}

fn hostile_trace() -> Vec<u8> {
    let long = "x\u{202E}".repeat(15_000);
    let script = "</script><script>console.log('hostile')</script>";
    let names = [script, "<img src=http://example.com/x>", "\"'&\0\u{2028}\n", "", &long];
    let mut trace = Stream::new();
    trace.thread(5);
    let mut rows = Vec::new();
    for (index, name) in (1..).zip(names) {
        let ty = EventType::new(index, name, index, &name[..name.len().min(40)]);
        trace.metadata(&ty.optional(&[8, 4, 1, 0]));
        rows.push(Row::new(5, index as u32, 1000 + index * 10).metadata(index as u32));
    }
    trace.events(&rows);
    trace.end()
}

/// Gauges, counters with several tags, and a histogram, over ten seconds.
fn instruments_trace() -> Vec<u8> {
    let of_meter = |number, name, fields: &[&str]| {
        let common = ["sessionId", "meterName", "meterVersion", "instrumentName", "unit", "tags"];
        let ty = EventType::new(number, "System.Diagnostics.Metrics", number, name);
        common.iter().chain(fields).fold(ty, |ty, field| ty.field(field, &[18]))
    };
    let mut trace = Stream::new();
    trace.thread(5);
    trace.metadata(&of_meter(1, "CounterRateValuePublished", &["rate", "value"]));
    trace.metadata(&of_meter(2, "GaugeValuePublished", &["lastValue"]));
    trace.metadata(&of_meter(3, "HistogramValuePublished", &["quantiles"]));
    let mut payloads = Vec::new();
    for second in 1..=10_u64 {
        let fields = |name: &str, unit: &str, tags: &str, values: &[String]| {
            let texts = ["s", "Shop", "", name, unit, tags].map(str::to_owned);
            texts.iter().chain(values).flat_map(|text| utf16z(text)).collect::<Vec<u8>>()
        };
        for (tag, rate) in (1..).zip(["de", "fr", "it", "es", "se", "no", "dk", "fi"]) {
            let (rate, tags) = ((second * tag % 7).to_string(), format!("country={rate}"));
            let values = [rate, (second * 7).to_string()];
            payloads.push((second, 1, fields("orders", "{order}", &tags, &values)));
        }
        let price = [(20.5 + second as f64).to_string()];
        payloads.push((second, 2, fields("price", "EUR", "", &price)));
        let quantiles = [format!("0.5={second};0.95={};0.99={}", second * 2, second * 3)];
        payloads.push((second, 3, fields("latency", "ms", "route=/cart", &quantiles)));
    }
    let rows = payloads.iter().zip(1..).map(|((second, ty, payload), number)| {
        let at = 1000 + second * 1_000_000 + u64::from(number);
        Row::new(5, number, at).metadata(*ty).payload(payload)
    });
    trace.events(&rows.collect::<Vec<_>>());
    trace.end()
}

#[test]
fn judge_pages_show_what_info_and_tree_say() {
    if left_out() {
        return;
    }
    let agreed = Agreed::open("tests/command/reference/browser.agreed");
    let folder = tempfile::tempdir().unwrap();
    let mut spans = spans_trace();
    let mut traces = vec![
        ("spans".to_owned(), spans.clone()),
        ("hostile".to_owned(), hostile_trace()),
        ("empty".to_owned(), Stream::new().end()),
        ("instruments".to_owned(), instruments_trace()),
    ];
    spans.truncate(spans.len() / 2);
    traces.push(("cut".to_owned(), spans));
    for path in dotnet_traces() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if name.contains("lossy") || name.contains("objver4") {
            traces.push((name, fs::read(&path).unwrap()));
        }
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/report_browser.mjs");
    let mut parts = vec![fs::read(&script).unwrap()];
    let (mut pages, mut expected) = (Vec::new(), Vec::new());
    for (name, trace) in &traces {
        let page = folder.path().join(format!("{name}.html"));
        nettrace(&["report", "-", "-o", page.to_str().unwrap(), "--title", name], trace);
        let info = nettrace(&["info", "--json", "-"], trace).stdout;
        let trees = nettrace(&["tree", "--json", "--slow", "20", "-"], trace).stdout;
        parts.extend([fs::read(&page).unwrap(), info.clone(), trees.clone()]);
        pages.push(page);
        expected.push([info, trees].map(|lines| String::from_utf8(lines).unwrap()));
    }
    let parts: Vec<_> = parts.iter().map(Vec::as_slice).collect();
    agreed.or_ask(&parts, || {
        let Some(browser) = browser::find(&["playwright-core"]) else { return false };
        let names: Vec<_> = traces.iter().map(|(name, _)| &**name).collect();
        compare_pages(&browser, &script, &pages, &names, &expected);
        true
    });
}

/// Opens the pages. Compares what they show with the lines of `info` and `tree`.
fn compare_pages(
    browser: &Browser,
    script: &Path,
    pages: &[PathBuf],
    names: &[&str],
    expected: &[[String; 2]],
) {
    let output = Command::new("node")
        .args([script, &browser.packages, &browser.chromium])
        .args(pages)
        .output()
        .expect("node runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Vec<_> = stdout(&output).lines().map(strict_json).collect();
    assert_eq!(results.len(), names.len());
    for ((name, expected), result) in names.iter().zip(expected).zip(&results) {
        assert_eq!(result["problems"], json!([]), "{name}");
        assert_eq!(result["requests"], json!([]), "{name}");
        assert_eq!(result["widths"], json!({ "1280": 1280, "390": 390 }), "{name}");
        assert_eq!(result["read"]["unnamed"], 0, "{name}");
        assert_eq!(result["read"]["title"], json!(name));
        compare(name, expected, &result["read"]);
    }
    assert_eq!(results[0]["enlarged"], true);
    let alerts = |index: usize| results[index]["read"]["alerts"].to_string();
    assert_eq!((alerts(0), alerts(2)), ("[]".into(), "[]".into()));
    assert!(alerts(4).contains("cut short"), "{}", alerts(4));
    // A chart for each instrument, and one for the histogram with its tags.
    assert_eq!(results[3]["read"]["charts"], json!(["latency", "orders", "price"]));
    let tables = results[3]["read"]["tables"]["instruments"].as_array().unwrap();
    assert_eq!(tables[0].as_array().unwrap().len(), 9);
    assert_eq!(tables[1][0].as_array().unwrap()[3..], [10, 20, 30].map(Value::from));
    println!("load: {:?}", results.iter().map(|it| it["load_ms"].to_string()).collect::<Vec<_>>());
}

/// Compares the numbers that Chromium shows.
fn compare(name: &str, [info, trees]: &[String; 2], read: &Value) {
    let info = strict_json(info.trim());
    for key in ["events", "lost", "spans", "bytes"] {
        assert_eq!(read["facts"][key], info[key], "{name}: {key}");
    }
    let events = read["shown"]["events"].as_str().unwrap().replace(',', "");
    assert_eq!(events, info["events"].to_string(), "{name}");
    // Event types, in the order of `info`: events and bytes.
    let column = |table: &Value, column: usize| -> Vec<Value> {
        table.as_array().unwrap().iter().map(|row| row[column].clone()).collect()
    };
    let of_info = |list: &str, key: &str| -> Vec<Value> {
        info[list].as_array().unwrap().iter().map(|it| it[key].clone()).take(200).collect()
    };
    if info["events"] != 0 {
        let types = &read["tables"]["types"][0];
        assert_eq!(column(types, 1), of_info("types", "events"), "{name}");
        assert_eq!(column(types, 2), of_info("types", "payload_bytes"), "{name}");
    }
    if let Some(threads) = read["tables"]["threads"].get(0) {
        assert_eq!(column(threads, 2), of_info("threads", "events"), "{name}");
        assert_eq!(column(threads, 4), of_info("threads", "lost"), "{name}");
    }
    // The slowest trees and those that are cut, as `tree` sorts them.
    let trees: Vec<_> = trees
        .lines()
        .map(strict_json)
        .filter_map(|tree| {
            let (root, spans) = (&tree["spans"][0], tree["spans"].as_array()?.len());
            let length = root["duration_ns"].as_i64().or(root["at_least_ns"].as_i64());
            let length = length.or((root["state"] == "without_start").then_some(0))?;
            let id =
                root["span"].as_str().or(root["path"].as_str()).or(root["activity"].as_str())?;
            Some(json!([id, length, spans]))
        })
        .collect();
    assert_eq!(read["roots"], json!(trees), "{name}");
    // Spans by name: how many, and the longest.
    if name == "spans" {
        let rows = read["tables"]["latency"].as_array().unwrap().last().unwrap();
        let shown: Vec<_> =
            rows.as_array().unwrap().iter().map(|row| json!([row[1], row[5]])).collect();
        let expected = [json!([60, 300_000]), json!([60, 187_000]), json!([60, 30_000])];
        for row in expected {
            assert!(shown.contains(&row), "{row} {shown:?}");
        }
    }
}
