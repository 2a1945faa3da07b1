//! A small product, which tells whether a card works.

use std::sync::Arc;

use embedctl_common::error::{Error, Result};

use super::{Operands, ProductShape, Products, WORKSPACE};
use crate::card::Card;
use crate::memory::{CardStream, DeviceMemory, HostMemory};
use crate::{CardElement, NAME};

/// Multiplies two small matrices of whole numbers on `card`, whose product is exact.
///
/// # Errors
/// If the card fails, or the result is wrong.
pub fn try_product(card: &Arc<Card>) -> Result<()> {
    const SIZE: usize = 64;
    let values = |seed: usize| -> Vec<f32> {
        let value = |at: usize| (at * seed % 7) as f32 - 3.0;
        (0..SIZE * SIZE).map(value).collect()
    };
    let (w, x) = (values(3), values(5));
    let products = Products::new(card, CardElement::F32, false, None)?;
    let stream = CardStream::new(card)?;
    let workspace = DeviceMemory::new(card, WORKSPACE)?;
    let [on_w, on_x] = [
        DeviceMemory::of(card, &w, &stream)?,
        DeviceMemory::of(card, &x, &stream)?,
    ];
    let y = DeviceMemory::new(card, SIZE * SIZE * 4)?;
    let shape = ProductShape {
        inputs: SIZE,
        outputs: SIZE,
        x_stride: SIZE,
        w_stride: SIZE,
        y_stride: SIZE,
        is_wide: true,
        has_bias: false,
        has_base: false,
    };
    let operands = Operands {
        w: on_w.pointer,
        x: on_x.pointer,
        bias: 0,
        base: 0,
        y: y.pointer,
    };
    products.run(&stream, workspace.pointer, shape, SIZE, operands)?;
    let mut found = HostMemory::<f32>::new(card, SIZE * SIZE)?;
    stream.read(y.pointer, &mut found, SIZE * SIZE)?;
    stream.wait()?;
    let product = |token: usize, output: usize| -> f32 {
        let (x, w) = (&x[token * SIZE..][..SIZE], &w[output * SIZE..][..SIZE]);
        x.iter().zip(w).map(|(x, w)| x * w).sum()
    };
    let is_right = (found.values().iter().enumerate())
        .all(|(at, value)| *value == product(at / SIZE, at % SIZE));
    match is_right {
        true => Ok(()),
        false => Err(Error::engine(NAME, "the card multiplies matrices wrongly")
            .with_remedy("look at its state with nvidia-smi -q")),
    }
}
