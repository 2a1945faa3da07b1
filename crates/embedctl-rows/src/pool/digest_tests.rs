//! Digests of poolers.

use super::tests::plain;
use super::*;
use crate::PoolingMode;
use crate::{Dense, DenseActivation, LayerNorm, Residual, Step};

fn dense_with(activation: DenseActivation, bias: f32) -> Dense {
    Dense {
        input: 2,
        output: 2,
        weight: [1.0, 0.0, 0.0, 1.0].into(),
        bias: vec![bias; 2],
        activation,
        residual: Residual::None,
    }
}

/// A cosine that is kept under a digest must not be taken for another way to a vector.
#[test]
fn every_way_to_a_vector_has_a_digest_of_its_own() {
    let norm = |epsilon| {
        Step::LayerNorm(LayerNorm {
            weight: vec![1.0; 2],
            bias: vec![0.0; 2],
            epsilon,
        })
    };
    let dense_of = |activation, bias| Step::Dense(dense_with(activation, bias));
    let dense = || dense_of(DenseActivation::Identity, 0.0);
    let residual = |residual| {
        Step::Dense(Dense {
            residual,
            ..dense_with(DenseActivation::Identity, 0.0)
        })
    };
    let steps = [
        vec![],
        vec![Step::Normalize],
        vec![Step::Normalize, Step::Normalize],
        vec![dense()],
        vec![dense(), dense()],
        vec![dense(), Step::Normalize],
        vec![Step::Normalize, dense()],
        vec![dense_of(DenseActivation::Tanh, 0.0)],
        vec![dense_of(DenseActivation::Identity, 1.0)],
        vec![residual(Residual::Identity)],
        vec![residual(Residual::Projected([1.0; 4].into()))],
        vec![norm(1e-5)],
        vec![norm(1e-6)],
        vec![Step::Activation(DenseActivation::Tanh)],
        vec![Step::Activation(DenseActivation::Sigmoid)],
    ];
    let mut all: Vec<Pooler> = steps.into_iter().map(plain).collect();
    let mut change = |change: fn(&mut Pooler)| {
        let mut pooler = plain(Vec::new());
        change(&mut pooler);
        all.push(pooler);
    };
    change(|it| it.rule.modes = vec![PoolingMode::Cls]);
    change(|it| it.rule.modes.push(PoolingMode::Cls));
    change(|it| it.pools = false);
    change(|it| it.rule.excluded = 1);
    change(|it| it.token_steps = vec![Step::Normalize].into());
    change(|it| it.rule.not_last = Some(2));
    change(|it| it.form.scores = true);
    change(|it| it.kept = vec![1]);
    change(|it| it.kept = vec![1, 2]);
    change(|it| it.normalize_last = true);
    let digests: std::collections::BTreeSet<String> = all.iter().map(Pooler::digest).collect();
    assert_eq!(digests.len(), all.len());
    assert_eq!(all[3].digest(), plain(vec![dense()]).digest());
}
