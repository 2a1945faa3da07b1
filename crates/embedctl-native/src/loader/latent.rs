//! Loads latent attention.

use super::Loader;
use crate::latent::{LatentMatrices, LatentWeights};
use embedctl_checkpoint::architecture::LatentAttention;
use embedctl_checkpoint::names::LATENT;
use embedctl_checkpoint::safetensors::{Tensor, missing};
use embedctl_common::error::Result;
use embedctl_kernels::{Arithmetic, Matrix, Norm, Operand, PackedLayout, ProductFinish, linear};
use rayon::prelude::*;

/// `torch.nn.LayerNorm`'s default.
const EPSILON: f32 = 1e-5;

impl<'a> Loader<'a> {
    /// The weights of latent attention, packed; `None` where the network has none.
    ///
    /// # Errors
    /// As [`Loader::outer_weights`].
    pub(crate) fn latent(&self) -> Result<Option<LatentWeights>> {
        let (Some(latent), Some(matrices)) = (self.architecture.latent, self.latent_matrices()?)
        else {
            return Ok(None);
        };
        let hidden = self.architecture.hidden;
        let pack = |weight: &[f32], bias: &[f32], [outputs, inputs]: [usize; 2], gated: bool| {
            let layout = PackedLayout {
                outputs,
                inputs,
                gated,
            };
            let row = |row: usize, out: &mut [f32]| {
                out.copy_from_slice(&weight[row * inputs..][..inputs]);
            };
            let isa = self.isa.without_tiles();
            Matrix::pack(isa, Arithmetic::Fp32, layout, row, bias, None)
        };
        let (scores, inner) = (latent.scores(), latent.inner(hidden));
        let LatentMatrices { up, down, .. } = &matrices;
        Ok(Some(LatentWeights {
            latents: latent.latents,
            scores: pack(&matrices.scores, &[], [scores, hidden], false),
            mix: pack(&matrices.mix, &[], [hidden, scores], false),
            up: pack(&up[0], &up[1], [inner, hidden], true),
            down: pack(&down[0], &down[1], [hidden, inner], false),
            norm: matrices.norm,
            feed_norm: matrices.feed_norm,
        }))
    }

    /// The same as plain matrices.
    ///
    /// # Errors
    /// As [`Loader::outer_weights`].
    pub(crate) fn latent_matrices(&self) -> Result<Option<LatentMatrices>> {
        let Some(latent) = self.architecture.latent else {
            return Ok(None);
        };
        let hidden = self.architecture.hidden;
        let floats = |name: &str, shape: &[usize]| self.beside(name, shape)?.floats();
        let norm = |name: &str| {
            let [weight, bias] = ["weight", "bias"]
                .map(|part| floats(&format!("cross_attend_blocks.{name}.{part}"), &[hidden]));
            Ok::<_, embedctl_common::Error>(Norm::layer(weight?, bias?, EPSILON))
        };
        let product = |name: &str, [outputs, inputs]: [usize; 2]| {
            let name = format!("cross_attend_blocks.1.fn.net.{name}");
            let weight = floats(&format!("{name}.weight"), &[outputs, inputs])?;
            let bias = floats(&format!("{name}.bias"), &[outputs])?;
            Ok::<_, embedctl_common::Error>([weight, bias])
        };
        let inner = latent.inner(hidden);
        let mut up = product("0", [2 * inner, hidden])?;
        // The second half is the activated one.
        up[0].rotate_left(inner * hidden);
        up[1].rotate_left(inner);
        let [scores, mix] = self.folded(&latent, &norm("0.norm_context")?)?;
        Ok(Some(LatentMatrices {
            norm: norm("0.norm")?,
            scores,
            mix,
            feed_norm: norm("1.norm")?,
            up,
            down: product("2", [hidden, inner])?,
        }))
    }

    /// A tensor of latent attention.
    fn beside(&self, name: &str, shape: &[usize]) -> Result<Tensor<'a>> {
        let name = format!("{LATENT}{name}");
        let tensor = self.checkpoint.get(&name);
        let tensor = tensor.ok_or_else(|| missing(self.checkpoint, &name))?;
        tensor.expect_shape(shape)?;
        Ok(tensor)
    }

    /// The query's weights times the latents' keys, and the latents' values times the output's weights.
    fn folded(&self, latent: &LatentAttention, context_norm: &Norm) -> Result<[Vec<f32>; 2]> {
        let (hidden, size, latents) = (self.architecture.hidden, latent.head_size, latent.latents);
        let inner = latent.heads * size;
        let attention = "cross_attend_blocks.0.fn";
        let query = self.beside(&format!("{attention}.to_q.weight"), &[inner, hidden])?;
        let key_value = self.beside(&format!("{attention}.to_kv.weight"), &[2 * inner, hidden])?;
        let output = self.beside(&format!("{attention}.to_out.weight"), &[hidden, inner])?;
        let mut context = self.beside("latents", &[latents, hidden])?.floats()?;
        context_norm.apply(self.isa, &mut context);
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
        let scale = (size as f64).powf(-0.5) as f32;
        let heads = (0..latent.heads).into_par_iter().map(|head| {
            let rows = |tensor: &Tensor<'_>, first: usize| {
                let mut rows = vec![0.0; size * hidden];
                tensor.read(first * hidden, &mut rows)?;
                Ok::<_, embedctl_common::Error>(rows)
            };
            let keys = rows(&key_value, head * size)?;
            let keys = self.times(&context, [latents, hidden, size], |row, out| {
                out.copy_from_slice(&keys[row * hidden..][..hidden]);
            });
            let queries = rows(&query, head * size)?;
            let mut scores = self.times(&keys, [latents, size, hidden], |row, out| {
                let column = queries[row..].iter().step_by(hidden);
                out.iter_mut()
                    .zip(column)
                    .for_each(|(to, value)| *to = *value);
            });
            scores.iter_mut().for_each(|score| *score *= scale);
            let values = rows(&key_value, inner + head * size)?;
            let values = self.times(&context, [latents, hidden, size], |row, out| {
                out.copy_from_slice(&values[row * hidden..][..hidden]);
            });
            let mut columns = vec![0.0; hidden * size];
            for (row, out) in columns.chunks_exact_mut(size).enumerate() {
                output.read(row * inner + head * size, out)?;
            }
            let mix = self.times(&values, [latents, size, hidden], |row, out| {
                out.copy_from_slice(&columns[row * size..][..size]);
            });
            Ok::<_, embedctl_common::Error>((scores, mix))
        });
        let heads: Vec<(Vec<f32>, Vec<f32>)> = heads.collect::<Result<_>>()?;
        let mut mix = vec![0.0; hidden * latent.scores()];
        for (head, (_, own)) in heads.iter().enumerate() {
            for (one, row) in own.chunks_exact(hidden).enumerate() {
                let column = mix[head * latents + one..]
                    .iter_mut()
                    .step_by(latent.scores());
                column.zip(row).for_each(|(to, value)| *to = *value);
            }
        }
        let scores = heads.into_iter().flat_map(|(scores, _)| scores);
        Ok([scores.collect(), mix])
    }

    /// `x` of `[rows, inputs]` times a matrix of `outputs` rows.
    fn times(
        &self,
        x: &[f32],
        [rows, inputs, outputs]: [usize; 3],
        row: impl FnMut(usize, &mut [f32]),
    ) -> Vec<f32> {
        let layout = PackedLayout {
            outputs,
            inputs,
            gated: false,
        };
        let (isa, precision) = (self.isa.without_tiles(), Arithmetic::Fp32);
        let matrix = Matrix::pack(isa, precision, layout, row, &[], None);
        let mut operand = Operand::new();
        let mut out = vec![0.0; rows * outputs];
        let input = operand.convert(&matrix, x, inputs, rows);
        linear(
            input,
            0..rows,
            &matrix,
            &mut out,
            outputs,
            ProductFinish::Store,
        );
        out
    }
}
