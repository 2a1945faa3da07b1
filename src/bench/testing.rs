//! Made-up reports for tests.

use super::configuration::Configuration;
use super::machine::Machine;
use super::protocol::{OpenedConfiguration, Stages};
use super::report::{BenchReport, Latency, MeasuredConfiguration, Row, SCHEMA};
use super::stats::Spread;
use super::workload::WorkloadInfo;

/// A row with these rows a second; none for a row that failed.
pub(super) fn row(provider: &str, rates: &[f64]) -> Row {
    let configuration = Configuration {
        model: "org/model".into(),
        provider: provider.into(),
        ..Configuration::default()
    };
    Row {
        name: provider.into(),
        configuration,
        measured: Spread::of(rates).map(|rates| measured(provider, rates)),
        failed: None,
    }
}

fn measured(provider: &str, rows_per_second: Spread) -> MeasuredConfiguration {
    MeasuredConfiguration {
        opened: OpenedConfiguration {
            model: "org/model".into(),
            revision: None,
            model_file: "onnx/model.onnx".into(),
            engine: "onnxruntime".into(),
            version: "1.31.1".into(),
            provider: provider.into(),
            library: None,
            devices: Vec::new(),
            options: Vec::new(),
            placement: Vec::new(),
            cosine_to_cpu: None,
            precision: None,
            cosine: None,
            threads: 2,
            batch_tokens: 512,
            batch_size: 128,
            window: 8192,
            dimensions: 384,
            max_length: Some(256),
            load_seconds: 0.4,
            notes: Vec::new(),
        },
        sample_rows: 512,
        sample_tokens: 9216,
        truncated: 0,
        rejected: 0,
        tokens_per_second: rows_per_second.scaled(18.0),
        rows_per_second,
        latency_ms: Some(Latency {
            p50: 2.0,
            p95: 3.0,
            p99: 4.0,
            texts: 96,
        }),
        peak_memory_bytes: Some(216_000_000),
        device_memory_bytes: None,
        padding: 0.013,
        stages: Stages {
            read: 0.002,
            tokenize: 0.02,
            wait: 0.03,
            infer: 0.93,
            pool: 0.01,
            write: 0.008,
        },
        limited_by: "infer".into(),
        useful_gflops: Some(380.0),
        share_of_peak: Some(0.72),
    }
}

pub(super) fn report(rows: Vec<Row>) -> BenchReport {
    BenchReport {
        schema: SCHEMA,
        tool: "embedctl 0.1.0".into(),
        date: "2026-11-21T12:00:00Z".into(),
        machine: Machine {
            cpu: "Test Processor 9000".into(),
            cores: 2,
            memory_bytes: Some(16 << 30),
            os: "Test OS 1".into(),
            arch: "x86_64".into(),
            peak_gflops: Some(540.0),
            peak_bf16: None,
            peak_int16: None,
            peak_int8: None,
            peak_vectors: Some("AVX-512".into()),
        },
        workload: WorkloadInfo {
            name: "short".into(),
            built_in: true,
            records: 65_536,
            rejected: 0,
            cut: false,
        },
        rows,
        notes: Vec::new(),
        comparison: None,
    }
}
