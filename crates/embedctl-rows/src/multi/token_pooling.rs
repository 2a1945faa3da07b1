//! Hierarchical token pooling: a text's vectors are clustered by Ward's method, and each cluster becomes its mean.

use kodama::{Method, linkage};

/// A `HierarchicalTokenPooling`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenPooling {
    /// By how much the vectors become fewer, at least 1.
    pub factor: f64,
    /// Leading vectors that stay as they are.
    pub protected: usize,
    /// Whether all vectors are scaled to length 1 behind it.
    pub normalize: bool,
}

impl TokenPooling {
    /// That of a single call, as the reference makes it.
    #[must_use]
    pub fn by(factor: f64) -> Self {
        Self {
            factor,
            protected: 1,
            normalize: true,
        }
    }

    /// The vectors `[tokens, width]` behind it.
    #[must_use]
    pub fn apply(&self, vectors: Vec<f32>, width: usize) -> Vec<f32> {
        if vectors.iter().any(|value| !value.is_finite()) {
            return vectors;
        }
        let protected = (self.protected * width).min(vectors.len());
        let (first, rest) = vectors.split_at(protected);
        let count = rest.len() / width.max(1);
        let clusters = clusters(count, self.factor);
        let mut out = vectors.clone();
        if clusters < count {
            out = first.to_vec();
            let labels = labels(rest, width, clusters);
            let most = labels.iter().max().map_or(0, |most| most + 1);
            let (mut sums, mut counts) = (vec![0.0_f32; most * width], vec![0.0_f32; most]);
            for (vector, &label) in rest.chunks_exact(width).zip(&labels) {
                counts[label] += 1.0;
                let sum = &mut sums[label * width..(label + 1) * width];
                sum.iter_mut().zip(vector).for_each(|(sum, it)| *sum += it);
            }
            for (sum, count) in sums.chunks_exact(width).zip(&counts) {
                out.extend(sum.iter().map(|it| it / count));
            }
        }
        if self.normalize {
            for vector in out.chunks_exact_mut(width.max(1)) {
                let norm = vector.iter().map(|it| it * it).sum::<f32>().sqrt();
                let norm = norm.max(1e-12);
                vector.iter_mut().for_each(|it| *it /= norm);
            }
        }
        out
    }
}

/// How many clusters `count` vectors make.
fn clusters(count: usize, factor: f64) -> usize {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss
    )]
    let quotient = (count as f64 / factor).floor() as usize;
    quotient.max(1)
}

/// The cluster of each vector, numbered as scipy's `fcluster(…, criterion="maxclust")` does.
fn labels(vectors: &[f32], width: usize, clusters: usize) -> Vec<usize> {
    let rows: Vec<&[f32]> = vectors.chunks_exact(width).collect();
    let count = rows.len();
    let mut distances = Vec::with_capacity(count * count.saturating_sub(1) / 2);
    for (index, row) in rows.iter().enumerate() {
        for other in &rows[index + 1..] {
            let product: f32 = row.iter().zip(*other).map(|(a, b)| a * b).sum();
            distances.push(f64::from((1.0 - product).clamp(0.0, 2.0)));
        }
    }
    let tree = linkage(&mut distances, count, Method::Ward);
    let steps = tree.steps();
    // As many merges as leave so many clusters, and those of the same height.
    let cutoff = (count - clusters)
        .checked_sub(1)
        .map_or(f64::NEG_INFINITY, |last| steps[last].dissimilarity);
    let mut labels = vec![0; count];
    let mut next = 0;
    // Nodes to visit, each with whether a cluster that holds it has been numbered.
    let mut nodes = vec![(count + steps.len() - 1, false)];
    if count == 1 {
        return labels;
    }
    while let Some((node, mut inside)) = nodes.pop() {
        let Some(step) = node.checked_sub(count).map(|index| &steps[index]) else {
            next += usize::from(!inside);
            labels[node] = next - 1;
            continue;
        };
        if !inside && step.dissimilarity <= cutoff {
            inside = true;
            next += 1;
        }
        // Merged nodes go before single vectors.
        let (left, right) = (step.cluster1, step.cluster2);
        let (merged, single): (Vec<_>, Vec<_>) =
            [left, right].into_iter().partition(|child| *child >= count);
        let order = merged.into_iter().chain(single).collect::<Vec<_>>();
        nodes.extend(order.into_iter().rev().map(|child| (child, inside)));
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_means_behind_the_protected_vectors() {
        let vectors = vec![
            0.0, 1.0, // protected
            1.0, 0.0, 0.0, -1.0, 0.8, 0.6, 0.6, -0.8,
        ];
        let pooled = TokenPooling::by(2.0).apply(vectors.clone(), 2);
        assert_eq!(pooled.len(), 6);
        assert_eq!(pooled[..2], [0.0, 1.0]);
        let norm = |vector: &[f32]| vector.iter().map(|it| it * it).sum::<f32>();
        assert!(pooled.chunks(2).all(|it| (norm(it) - 1.0).abs() < 1e-6));
        let alone = TokenPooling {
            factor: 1.0,
            protected: 0,
            normalize: false,
        };
        assert_eq!(alone.apply(vectors.clone(), 2), vectors);
        let all = TokenPooling {
            factor: 100.0,
            ..alone
        };
        assert_eq!(all.apply(vectors, 2).len(), 2);
        assert_eq!(
            TokenPooling::by(1.5).apply(Vec::new(), 2),
            Vec::<f32>::new()
        );
        assert_eq!(
            (clusters(7, 1.5), clusters(1, 3.0), clusters(0, 2.0)),
            (4, 1, 1)
        );
    }
}
