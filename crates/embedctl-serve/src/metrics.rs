//! The server's numbers, in Prometheus' text format.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use embedctl_common::prometheus::MetricsPage;
use embedctl_common::threads::locked;

/// Upper bounds of the durations' buckets, in seconds.
const SECONDS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0,
];

/// Upper bounds of the buckets of batch sizes.
const SIZES: [f64; 12] = [
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 2048.0, 8192.0,
];

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct EventCounter(AtomicU64);

impl EventCounter {
    pub fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many values are up to each bound, and their sum.
#[derive(Debug)]
struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: vec![0; bounds.len() + 1],
            sum: 0.0,
        }
    }

    fn add(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|&bound| bound < value);
        self.counts[bucket] += 1;
        self.sum += value;
    }
}

/// Everything that is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// Requests by route and status.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    /// Durations of requests by route, in seconds.
    durations: Mutex<BTreeMap<&'static str, Histogram>>,
    /// Refused requests and connections by reason.
    refused: Mutex<BTreeMap<&'static str, u64>>,
    waits: Mutex<Histogram>,
    batches: Mutex<[Histogram; 3]>,
    /// Batches that the engine failed on.
    pub failed_batches: EventCounter,
    /// Inputs of answered requests.
    pub inputs: EventCounter,
    /// Their tokens.
    pub tokens: EventCounter,
    /// Inputs that were cut to the model's length.
    pub truncated: EventCounter,
    /// Rows that overflowed in fp16 and were computed in bf16.
    pub overflowed: EventCounter,
}

/// Numbers of the moment.
pub(crate) struct Gauges {
    pub connections: usize,
    pub requests: usize,
    pub inputs: usize,
    pub waiting_tokens: usize,
    pub body_bytes: usize,
    pub ready: bool,
}

impl Metrics {
    pub fn new() -> Self {
        let sizes = || Histogram::new(&SIZES);
        Self {
            requests: Mutex::default(),
            durations: Mutex::default(),
            refused: Mutex::default(),
            waits: Mutex::new(Histogram::new(&SECONDS)),
            batches: Mutex::new([sizes(), sizes(), Histogram::new(&SECONDS)]),
            failed_batches: EventCounter::default(),
            inputs: EventCounter::default(),
            tokens: EventCounter::default(),
            truncated: EventCounter::default(),
            overflowed: EventCounter::default(),
        }
    }

    /// A request was answered.
    pub fn request(&self, route: &'static str, status: u16, took: Duration) {
        *locked(&self.requests).entry((route, status)).or_default() += 1;
        locked(&self.durations)
            .entry(route)
            .or_insert_with(|| Histogram::new(&SECONDS))
            .add(took.as_secs_f64());
    }

    /// A request or a connection was refused.
    pub fn refused(&self, reason: &'static str) {
        *locked(&self.refused).entry(reason).or_default() += 1;
    }

    /// A request's first row left the queue.
    pub fn waited(&self, time: Duration) {
        locked(&self.waits).add(time.as_secs_f64());
    }

    /// A batch ran.
    pub fn batch(&self, rows: usize, tokens: usize, took: Duration) {
        let mut batches = locked(&self.batches);
        batches[0].add(rows as f64);
        batches[1].add(tokens as f64);
        batches[2].add(took.as_secs_f64());
    }

    /// All numbers as text; `model` labels the first metric.
    pub fn text(&self, model: &str, version: &str, gauges: &Gauges) -> String {
        let mut page = MetricsPage::new("embedctl_serve_", &[]);
        page.family("info", "gauge", "The server and its model.");
        page.sample("info", &[("model", model), ("version", version)], 1.0);
        self.add_requests(&mut page);
        self.add_batches(&mut page);
        self.add_counters(&mut page);
        gauges.add(&mut page);
        page.into_text()
    }

    /// Adds what is counted for requests: answers, durations, refusals and waits.
    fn add_requests(&self, page: &mut MetricsPage) {
        page.family("requests_total", "counter", "Answered requests.");
        let counts = locked(&self.requests).clone();
        for ((route, status), count) in counts {
            let status = status.to_string();
            let labels = [("route", route), ("status", &*status)];
            page.sample("requests_total", &labels, count as f64);
        }
        let name = "request_duration_seconds";
        let help = "Time from a request's head to its answer.";
        page.family(name, "histogram", help);
        for (route, histogram) in locked(&self.durations).iter() {
            add_histogram(page, name, &[("route", *route)], histogram);
        }
        let (name, help) = ("refused_total", "Refused requests and connections.");
        page.family(name, "counter", help);
        let refused = locked(&self.refused).clone();
        for (reason, count) in refused {
            page.sample(name, &[("reason", reason)], count as f64);
        }
        let name = "queue_duration_seconds";
        let help = "Time that a request waited for a worker.";
        page.family(name, "histogram", help);
        add_histogram(page, name, &[], &locked(&self.waits));
    }

    fn add_batches(&self, page: &mut MetricsPage) {
        let families = [
            ("batch_inputs", "Inputs of a batch."),
            ("batch_tokens", "Tokens of a batch, padding not counted."),
            ("batch_duration_seconds", "Time that a batch ran."),
        ];
        let batches = locked(&self.batches);
        for ((name, help), histogram) in families.into_iter().zip(batches.iter()) {
            page.family(name, "histogram", help);
            add_histogram(page, name, &[], histogram);
        }
    }

    fn add_counters(&self, page: &mut MetricsPage) {
        for (name, help, counter) in [
            (
                "failed_batches_total",
                "Batches that the engine failed on.",
                &self.failed_batches,
            ),
            (
                "inputs_total",
                "Inputs of requests that were answered with numbers.",
                &self.inputs,
            ),
            ("tokens_total", "Tokens of these inputs.", &self.tokens),
            (
                "truncated_total",
                "Inputs that were cut to the model's length.",
                &self.truncated,
            ),
            (
                "overflowed_total",
                "Inputs that overflowed in fp16 and were computed in bf16.",
                &self.overflowed,
            ),
        ] {
            page.family(name, "counter", help);
            page.sample(name, &[], counter.get() as f64);
        }
    }
}

impl Gauges {
    fn add(&self, page: &mut MetricsPage) {
        for (name, help, value) in [
            ("connections", "Open connections.", self.connections),
            (
                "requests_in_flight",
                "Requests without an answer yet.",
                self.requests,
            ),
            (
                "queue_inputs",
                "Inputs in the server, waiting or running.",
                self.inputs,
            ),
            (
                "queue_tokens",
                "Tokens that wait for a worker.",
                self.waiting_tokens,
            ),
            (
                "body_bytes",
                "Bytes of requests and answers in memory.",
                self.body_bytes,
            ),
            (
                "ready",
                "Whether requests are taken: 0 while the server stops.",
                usize::from(self.ready),
            ),
        ] {
            page.family(name, "gauge", help);
            page.sample(name, &[], value as f64);
        }
    }
}

/// Adds a histogram's samples.
fn add_histogram(
    page: &mut MetricsPage,
    name: &str,
    labels: &[(&str, &str)],
    histogram: &Histogram,
) {
    let mut sum = 0;
    for (index, count) in histogram.counts.iter().enumerate() {
        sum += count;
        let bound = match histogram.bounds.get(index) {
            Some(bound) => bound.to_string(),
            None => "+Inf".to_owned(),
        };
        let labels = [labels, &[("le", &*bound)]].concat();
        page.sample(&format!("{name}_bucket"), &labels, sum as f64);
    }
    page.sample(&format!("{name}_sum"), labels, histogram.sum);
    page.sample(&format!("{name}_count"), labels, sum as f64);
}
