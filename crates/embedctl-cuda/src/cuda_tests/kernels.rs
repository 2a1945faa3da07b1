//! Every kernel against plain code, at odd widths and lengths.

mod attention;

use std::sync::Arc;

use half::{bf16, f16};

use super::emulator::Emulator;
use crate::CardElement;
use crate::arguments::{
    ActivateArguments, AttendArguments, CombineArguments, ConvertArguments, ConvolveArguments,
    EmbedArguments, GatherArguments, NormArguments, PlaceArguments, PoolArguments, RouteArguments,
    SharesArguments, TermsArguments, TurnArguments, Work,
};
use crate::card::Card;
use crate::kernels::{Kernel, KernelShape, Kernels};
use crate::memory::{CardStream, DeviceMemory, HostMemory, Plain};

/// Numbers from a seed, about as great as activations are.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f32 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 40;
        bits as f32 / 8_388_608.0 - 1.0
    }

    fn values(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.next() * 2.0).collect()
    }
}

/// A card with the kernels of a shape, and a stream.
struct Bench {
    card: Arc<Card>,
    kernels: Kernels,
    stream: CardStream,
    element: CardElement,
}

impl Bench {
    fn new(emulator: &Emulator, element: CardElement, head: usize) -> Self {
        let card = emulator.card();
        let shape = KernelShape {
            element,
            head,
            has_extras: true,
            norms: 255,
        };
        Self {
            kernels: Kernels::load(&card, shape, None).unwrap(),
            stream: CardStream::new(&card).unwrap(),
            card,
            element,
        }
    }

    fn put<T: Plain>(&self, values: &[T]) -> DeviceMemory {
        DeviceMemory::of(&self.card, values, &self.stream).unwrap()
    }

    /// Values as elements. They are rounded here, too.
    fn elements(&self, values: &mut [f32]) -> DeviceMemory {
        match self.element {
            CardElement::F32 => self.put(values),
            CardElement::F16 => {
                let narrow: Vec<u16> = values
                    .iter()
                    .map(|it| f16::from_f32(*it).to_bits())
                    .collect();
                values
                    .iter_mut()
                    .for_each(|it| *it = f16::from_f32(*it).to_f32());
                self.put(&narrow)
            }
            CardElement::Bf16 => {
                let narrow: Vec<u16> = values
                    .iter()
                    .map(|it| bf16::from_f32(*it).to_bits())
                    .collect();
                values
                    .iter_mut()
                    .for_each(|it| *it = bf16::from_f32(*it).to_f32());
                self.put(&narrow)
            }
        }
    }

    /// Room for elements.
    fn room(&self, count: usize) -> DeviceMemory {
        DeviceMemory::new(&self.card, count * self.element.bytes()).unwrap()
    }

    fn wide(&self, count: usize) -> DeviceMemory {
        DeviceMemory::new(&self.card, count * 4).unwrap()
    }

    fn read<T: Plain>(&self, memory: &DeviceMemory, count: usize) -> Vec<T> {
        let mut host = HostMemory::new(&self.card, count).unwrap();
        self.stream.read(memory.pointer, &mut host, count).unwrap();
        self.stream.wait().unwrap();
        host.values().to_vec()
    }

    fn read_elements(&self, memory: &DeviceMemory, count: usize) -> Vec<f32> {
        match self.element {
            CardElement::F32 => self.read(memory, count),
            CardElement::F16 => {
                let bits: Vec<u16> = self.read(memory, count);
                bits.into_iter()
                    .map(|it| f16::from_bits(it).to_f32())
                    .collect()
            }
            CardElement::Bf16 => {
                let bits: Vec<u16> = self.read(memory, count);
                bits.into_iter()
                    .map(|it| bf16::from_bits(it).to_f32())
                    .collect()
            }
        }
    }

    /// The greatest relative error that rounding to elements makes.
    fn unit(&self) -> f64 {
        match self.element {
            CardElement::F32 => 1e-6,
            CardElement::F16 => 1e-3,
            CardElement::Bf16 => 8e-3,
        }
    }
}

#[track_caller]
fn near(what: &str, ours: &[f32], exact: &[f64], unit: f64) {
    assert_eq!(ours.len(), exact.len(), "{what}");
    for (index, (ours, exact)) in ours.iter().zip(exact).enumerate() {
        let apart = (f64::from(*ours) - exact).abs();
        let most = unit * exact.abs().max(1.0);
        assert!(
            apart <= most,
            "{what}: value {index} is {ours}, not {exact}"
        );
    }
}

const ELEMENTS: [CardElement; 3] = [CardElement::F32, CardElement::F16, CardElement::Bf16];

#[test]
fn arguments_are_as_large_as_the_kernels_take_them() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    let bench = Bench::new(&emulator, CardElement::F16, 64);
    for kernel in Kernel::ALL {
        let bytes = emulator.argument_bytes(bench.kernels.function(*kernel));
        let own = match kernel {
            Kernel::Embed => size_of::<EmbedArguments>(),
            Kernel::Convert => size_of::<ConvertArguments>(),
            Kernel::Turn | Kernel::TurnWhole => size_of::<TurnArguments>(),
            Kernel::Activate => size_of::<ActivateArguments>(),
            Kernel::Convolve => size_of::<ConvolveArguments>(),
            Kernel::Shares => size_of::<SharesArguments>(),
            Kernel::Pool => size_of::<PoolArguments>(),
            Kernel::Route => size_of::<RouteArguments>(),
            Kernel::Place => size_of::<PlaceArguments>(),
            Kernel::Gather => size_of::<GatherArguments>(),
            Kernel::Combine => size_of::<CombineArguments>(),
            Kernel::PoolTerms => size_of::<TermsArguments>(),
            Kernel::AttendAny
            | Kernel::AttendShort
            | Kernel::AttendShortExtras
            | Kernel::AttendLong
            | Kernel::AttendLongExtras => size_of::<AttendArguments>(),
            Kernel::Norm256
            | Kernel::Norm512
            | Kernel::Norm768
            | Kernel::Norm1024
            | Kernel::Norm2048
            | Kernel::Norm4096
            | Kernel::Norm8192
            | Kernel::Norm32768 => size_of::<NormArguments>(),
        };
        assert_eq!(bytes, own, "{}", kernel.name());
    }
}

#[test]
fn norms_of_every_width_are_those_of_plain_code() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    for element in ELEMENTS {
        let bench = Bench::new(&emulator, element, 16);
        for width in [
            8, 12, 33, 256, 384, 512, 768, 1000, 1024, 1536, 2560, 5120, 9000,
        ] {
            for is_rms in [false, true] {
                let tokens = 5;
                let mut noise = Noise(width as u64);
                let mut x = noise.values(tokens * width);
                x.iter_mut().for_each(|it| *it = *it * 3.0 + 0.5);
                let mut base = noise.values(tokens * width);
                let (weight, bias) = (noise.values(width), noise.values(width));
                let (input, base_memory) = (bench.elements(&mut x), bench.elements(&mut base));
                let out = bench.room(tokens * width);
                let (weights, biases) = (bench.put(&weight), bench.put(&bias));
                let arguments = NormArguments {
                    input: input.pointer,
                    base: base_memory.pointer,
                    out: out.pointer,
                    weight: weights.pointer,
                    bias: if is_rms { 0 } else { biases.pointer },
                    epsilon: 1e-5,
                    input_stride: width as i32,
                    out_stride: width as i32,
                    width: width as i32,
                    tokens: tokens as i32,
                    is_rms: i32::from(is_rms),
                    ..NormArguments::default()
                };
                let (kernel, of_block, threads) = Kernel::norm(width);
                let blocks = [tokens.div_ceil(of_block), 1];
                bench
                    .kernels
                    .launch(&bench.stream, kernel, blocks, threads, 128, arguments)
                    .unwrap();
                let mut exact = Vec::new();
                for (x, base) in x.chunks(width).zip(base.chunks(width)) {
                    let of = |x: f32| f64::from(x);
                    let mean = x.iter().map(|it| of(*it)).sum::<f64>() / width as f64;
                    let mean = if is_rms { 0.0 } else { mean };
                    let squares: f64 = x.iter().map(|it| (of(*it) - mean).powi(2)).sum();
                    let factor = 1.0 / (squares / width as f64 + 1e-5).sqrt();
                    for channel in 0..width {
                        let shift = if is_rms { 0.0 } else { of(bias[channel]) };
                        let normed = (of(x[channel]) - mean) * factor * of(weight[channel]);
                        exact.push(normed + shift + of(base[channel]));
                    }
                }
                let what = format!("{} of width {width} in {element:?}", kernel.name());
                let ours = bench.read_elements(&out, tokens * width);
                near(&what, &ours, &exact, 2.0 * bench.unit());
            }
        }
    }
}

#[test]
fn heads_are_normed_and_turned_as_by_plain_code() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    for element in ELEMENTS {
        let bench = Bench::new(&emulator, element, 16);
        for (size, pairs, is_normed) in [
            (8, 4, true),
            (16, 8, false),
            (12, 3, true),
            (20, 5, false),
            (64, 32, true),
            (80, 20, true),
            (128, 64, true),
            (16, 0, true),
            (256, 128, true),
            (32, 16, false),
            (64, 0, true),
        ] {
            let (queries, keys, tokens) = (7, 2, 3);
            let stride = (queries + 2 * keys) * size;
            let mut noise = Noise(size as u64);
            let mut heads = noise.values(tokens * stride);
            let norms = [noise.values(size), noise.values(size)];
            let places = [0, 7, 3];
            let mut table = Vec::new();
            for place in 0..8 {
                for pair in 0..pairs {
                    let angle = place as f32 * 0.7_f32.powi(pair);
                    table.extend([angle.cos(), angle.sin()]);
                }
            }
            let [query_norm, key_norm] = norms.each_ref().map(|it| bench.put(it));
            let (angles, rows) = (bench.put(&table), bench.put(&places));
            // Rounds them.
            bench.elements(&mut heads);
            let arguments = TurnArguments {
                query_weight: if is_normed { query_norm.pointer } else { 0 },
                key_weight: if is_normed { key_norm.pointer } else { 0 },
                table: angles.pointer,
                places: rows.pointer,
                epsilon: 1e-6,
                stride: stride as i32,
                size: size as i32,
                queries: queries as i32,
                keys: keys as i32,
                pairs,
                tokens: tokens as i32,
                is_rms: 1,
                by_twos: i32::from(size % 2 == 0 && pairs % 2 == 0),
                ..TurnArguments::default()
            };
            let mut exact: Vec<f64> = heads.iter().map(|it| f64::from(*it)).collect();
            let pairs = pairs as usize;
            for (token, place) in places.iter().enumerate() {
                for head in 0..queries + keys {
                    let own = &mut exact[token * stride + head * size..][..size];
                    if is_normed {
                        let squares: f64 = own.iter().map(|it| it * it).sum();
                        let factor = 1.0 / (squares / size as f64 + 1e-6).sqrt();
                        let weight = &norms[usize::from(head >= queries)];
                        let each = own.iter_mut().zip(weight);
                        each.for_each(|(it, weight)| *it *= factor * f64::from(*weight));
                    }
                    for pair in 0..pairs {
                        let at = (*place as usize * pairs + pair) * 2;
                        let [cosine, sine] = [table[at], table[at + 1]].map(f64::from);
                        let [one, other] = [own[pair], own[pair + pairs]];
                        own[pair] = one * cosine - other * sine;
                        own[pair + pairs] = other * cosine + one * sine;
                    }
                }
            }
            let is_whole =
                size.is_power_of_two() && size >= 16 && (pairs == 0 || 2 * pairs == size);
            let whole = is_whole.then_some((Kernel::TurnWhole, tokens));
            let each = (Kernel::Turn, tokens * (queries + keys));
            for (kernel, tasks) in [each].into_iter().chain(whole) {
                let memory = bench.elements(&mut heads);
                let arguments = TurnArguments {
                    heads: memory.pointer,
                    ..arguments
                };
                let (kernels, blocks) = (&bench.kernels, [tasks.div_ceil(4), 1]);
                kernels
                    .launch(&bench.stream, kernel, blocks, 128, 0, arguments)
                    .unwrap();
                let ours = bench.read_elements(&memory, tokens * stride);
                let what = format!("{} of {size} in {element:?}", kernel.name());
                near(&what, &ours, &exact, 2.0 * bench.unit());
            }
        }
    }
}

#[test]
fn activations_are_those_of_plain_code() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    let of = |x: f64, activation: i32| {
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        match activation {
            // erfc by its continued fraction is not needed: the integral is.
            0 => {
                let steps = 4000;
                let width = x / f64::from(steps);
                let density = |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
                let sum: f64 = (0..steps)
                    .map(|step| density((f64::from(step) + 0.5) * width))
                    .sum();
                x * (0.5 + sum * width)
            }
            1 => 0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x * x * x)).tanh()),
            2 => x * sigmoid(1.702 * x),
            3 => x * sigmoid(x),
            4 => x.max(0.0),
            _ => x.tanh(),
        }
    };
    for element in ELEMENTS {
        let bench = Bench::new(&emulator, element, 16);
        for (width, is_gated) in [(8, false), (8, true), (13, false), (13, true), (40, true)] {
            for activation in 0..6 {
                let tokens = 3;
                let stride = if is_gated { 2 * width } else { width };
                let mut values = Noise(width as u64).values(tokens * stride);
                values.iter_mut().for_each(|it| *it *= 4.0);
                let memory = bench.elements(&mut values);
                let arguments = ActivateArguments {
                    values: memory.pointer,
                    stride: stride as i32,
                    width: width as i32,
                    tokens: tokens as i32,
                    activation,
                    is_gated: i32::from(is_gated),
                };
                let blocks = [(tokens * width.div_ceil(8)).div_ceil(512), 1];
                let (kernels, stream) = (&bench.kernels, &bench.stream);
                kernels
                    .launch(stream, Kernel::Activate, blocks, 256, 0, arguments)
                    .unwrap();
                let ours = bench.read_elements(&memory, tokens * stride);
                for token in 0..tokens {
                    let row = &values[token * stride..][..stride];
                    let exact: Vec<f64> = (0..width)
                        .map(|at| {
                            let gate = of(f64::from(row[at]), activation);
                            gate * if is_gated {
                                f64::from(row[width + at])
                            } else {
                                1.0
                            }
                        })
                        .collect();
                    let what = format!("activation {activation} of {width} in {element:?}");
                    near(
                        &what,
                        &ours[token * stride..][..width],
                        &exact,
                        2.0 * bench.unit(),
                    );
                }
            }
        }
    }
}

#[test]
fn pooled_vectors_are_those_of_plain_code() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    let bench = Bench::new(&emulator, CardElement::F16, 16);
    let (width, tokens) = (130, 40);
    let states = Noise(3).values(tokens * width);
    let spans = [0, 1, 1, 7, 7, 7, 9, 40];
    let modes = [0, 1, 2, 3, 4, 5];
    let memory = bench.put(&states);
    let (span_memory, mode_memory) = (bench.put(&spans), bench.put(&modes));
    let out = bench.wide(4 * 6 * width);
    let arguments = PoolArguments {
        states: memory.pointer,
        spans: span_memory.pointer,
        out: out.pointer,
        modes: mode_memory.pointer,
        width: width as i32,
        rows: 4,
        mode_count: 6,
        out_stride: 6 * width as i32,
    };
    let (kernels, stream) = (&bench.kernels, &bench.stream);
    kernels
        .launch(
            stream,
            Kernel::Pool,
            [width.div_ceil(128), 4],
            128,
            0,
            arguments,
        )
        .unwrap();
    let ours: Vec<f32> = bench.read(&out, 4 * 6 * width);
    let mut exact = Vec::new();
    for span in spans.chunks(2) {
        let (first, end) = (span[0] as usize, span[1] as usize);
        let count = (end - first) as f64;
        for mode in modes {
            for channel in 0..width {
                let values = (first..end).map(|it| f64::from(states[it * width + channel]));
                let values: Vec<f64> = values.collect();
                let sum: f64 = values.iter().sum();
                exact.push(match (mode, values.is_empty()) {
                    (_, true) => 0.0,
                    (0, _) => values[0],
                    (1, _) => values[values.len() - 1],
                    (2, _) => sum / count,
                    (3, _) => sum / count.sqrt(),
                    (4, _) => {
                        let places = values.iter().enumerate();
                        let weighted = places.map(|(place, value)| value * (place + 1) as f64);
                        weighted.sum::<f64>() / (count * (count + 1.0) / 2.0)
                    }
                    _ => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                });
            }
        }
    }
    near("pool", &ours, &exact, 1e-6);
}

#[test]
fn experts_are_chosen_grouped_and_summed_as_by_plain_code() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    let bench = Bench::new(&emulator, CardElement::F32, 16);
    let (count, chosen, tokens, width) = (37, 3, 21, 20);
    let mut noise = Noise(5);
    let mut scores = noise.values(tokens * count);
    // Equal scores: the first expert is taken.
    scores[4] = 9.0;
    scores[30] = 9.0;
    let score_memory = bench.put(&scores);
    let entries = tokens * chosen;
    let (shares, experts) = (bench.wide(entries), bench.wide(entries));
    let route = RouteArguments {
        scores: score_memory.pointer,
        shares: shares.pointer,
        experts: experts.pointer,
        count: count as i32,
        chosen: chosen as i32,
        tokens: tokens as i32,
        is_normalized: 1,
    };
    let (kernels, stream) = (&bench.kernels, &bench.stream);
    kernels
        .launch(
            stream,
            Kernel::Route,
            [tokens.div_ceil(4), 1],
            128,
            0,
            route,
        )
        .unwrap();
    let (counts, sources, targets) = (bench.wide(count), bench.wide(entries), bench.wide(entries));
    let place = PlaceArguments {
        experts: experts.pointer,
        counts: counts.pointer,
        sources: sources.pointer,
        targets: targets.pointer,
        count: count as i32,
        entries: entries as i32,
        chosen: chosen as i32,
    };
    kernels
        .launch(stream, Kernel::Place, [1, 1], 64, count * 4, place)
        .unwrap();
    let mut states = noise.values(tokens * width);
    let states_memory = bench.elements(&mut states);
    let gathered = bench.room(entries * width);
    let gather = GatherArguments {
        input: states_memory.pointer,
        out: gathered.pointer,
        sources: sources.pointer,
        width: width as i32,
        entries: entries as i32,
    };
    kernels
        .launch(
            stream,
            Kernel::Gather,
            [entries.div_ceil(4), 1],
            128,
            0,
            gather,
        )
        .unwrap();
    let out = bench.room(tokens * width);
    let combine = CombineArguments {
        results: gathered.pointer,
        base: states_memory.pointer,
        out: out.pointer,
        shares: shares.pointer,
        bias: 0,
        targets: targets.pointer,
        width: width as i32,
        chosen: chosen as i32,
        tokens: tokens as i32,
        is_wide: 1,
    };
    kernels
        .launch(
            stream,
            Kernel::Combine,
            [tokens.div_ceil(4), 1],
            128,
            0,
            combine,
        )
        .unwrap();
    let taken: Vec<i32> = bench.read(&experts, entries);
    for token in 0..tokens {
        let own = &scores[token * count..][..count];
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|a, b| own[*b].total_cmp(&own[*a]).then(a.cmp(b)));
        let taken: Vec<usize> = taken[token * chosen..][..chosen]
            .iter()
            .map(|it| *it as usize)
            .collect();
        assert_eq!(taken, order[..chosen], "token {token}");
    }
    let counted: Vec<i32> = bench.read(&counts, count);
    assert_eq!(counted.iter().sum::<i32>() as usize, entries);
    // Each expert gives what it got, so the shares, which are 1 together, give each token back.
    let exact: Vec<f64> = states.iter().map(|it| 2.0 * f64::from(*it)).collect();
    near(
        "combine",
        &bench.read_elements(&out, tokens * width),
        &exact,
        1e-6,
    );
}

#[test]
fn terms_are_pooled_as_by_plain_code() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    let bench = Bench::new(&emulator, CardElement::F16, 16);
    let (terms, ends) = (150, [3, 4, 9]);
    let mut logits = Noise(9).values(9 * terms);
    logits[5 * terms + 7] = f32::INFINITY;
    let (memory, end_memory) = (bench.put(&logits), bench.put(&ends));
    for (sums, is_twice) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let out = bench.wide(3 * terms);
        let arguments = TermsArguments {
            logits: memory.pointer,
            ends: end_memory.pointer,
            out: out.pointer,
            first: 0,
            count: terms as i32,
            stride: terms as i32,
            out_stride: terms as i32,
            sums,
            is_twice,
        };
        let (kernels, stream) = (&bench.kernels, &bench.stream);
        kernels
            .launch(
                stream,
                Kernel::PoolTerms,
                [terms.div_ceil(128), 3],
                128,
                0,
                arguments,
            )
            .unwrap();
        let ours: Vec<f32> = bench.read(&out, 3 * terms);
        assert!(ours[2 * terms + 7].is_nan());
        let weight = |x: f64| {
            if is_twice == 1 {
                x.ln_1p().ln_1p()
            } else {
                x.ln_1p()
            }
        };
        let mut first = 0;
        for (row, end) in ends.iter().enumerate() {
            for term in 0..terms {
                let of = (first..*end as usize)
                    .map(|token| f64::from(logits[token * terms + term]).max(0.0));
                let of: Vec<f64> = of.collect();
                let exact = match sums {
                    1 => of.iter().map(|it| weight(*it)).sum(),
                    _ => weight(of.iter().copied().fold(0.0, f64::max)),
                };
                if exact.is_finite() {
                    near("terms", &ours[row * terms + term..][..1], &[exact], 1e-5);
                }
            }
            first = *end as usize;
        }
    }
}

#[test]
fn rows_are_embedded_converted_convolved_and_shared_as_by_plain_code() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    for element in ELEMENTS {
        let bench = Bench::new(&emulator, element, 16);
        let (kernels, stream) = (&bench.kernels, &bench.stream);
        for width in [16, 21] {
            let mut noise = Noise(2);
            let (mut words, mut positions) = (noise.values(9 * width), noise.values(6 * width));
            let types = noise.values(2 * width);
            let (ids, kinds, places) = ([8, 0, 3, 3, 5], [0, 1, 0, 1, 1], [5, 0, 1, 2, 3]);
            let word_memory = bench.elements(&mut words);
            let position_memory = bench.elements(&mut positions);
            let memory = [bench.put(&ids), bench.put(&kinds), bench.put(&places)];
            let type_memory = bench.put(&types);
            let (wide, narrow) = (bench.wide(5 * width), bench.room(5 * width));
            let arguments = EmbedArguments {
                ids: memory[0].pointer,
                kinds: memory[1].pointer,
                places: memory[2].pointer,
                words: word_memory.pointer,
                positions: position_memory.pointer,
                types: type_memory.pointer,
                out: wide.pointer,
                scale: 1.5,
                width: width as i32,
                tokens: 5,
                is_wide: 1,
            };
            kernels
                .launch(stream, Kernel::Embed, [2, 1], 128, 0, arguments)
                .unwrap();
            let convert = ConvertArguments {
                input: wide.pointer,
                out: narrow.pointer,
                width: width as i32,
                tokens: 5,
                input_is_wide: 1,
                out_is_wide: 0,
            };
            kernels
                .launch(stream, Kernel::Convert, [2, 1], 128, 0, convert)
                .unwrap();
            let mut exact = Vec::new();
            for token in 0..5 {
                let row = |table: &[f32], row: i32, at: usize| {
                    f64::from(table[row as usize * width + at])
                };
                exact.extend((0..width).map(|at| {
                    1.5 * row(&words, ids[token], at)
                        + row(&types, kinds[token], at)
                        + row(&positions, places[token], at)
                }));
            }
            near("embed", &bench.read::<f32>(&wide, 5 * width), &exact, 1e-6);
            near(
                "convert",
                &bench.read_elements(&narrow, 5 * width),
                &exact,
                bench.unit(),
            );
        }
        let (channels, length) = (130, 3);
        let mut noise = Noise(4);
        let mut parts = noise.values(6 * 3 * channels);
        let (filters, bias) = (noise.values(length * channels), noise.values(channels));
        let part_memory = bench.elements(&mut parts);
        let (filter_memory, bias_memory) = (bench.put(&filters), bench.put(&bias));
        let work = bench.put(&[0, 4, 4, 0, 4, 2, 2, 0]);
        let out = bench.room(6 * channels);
        let arguments = ConvolveArguments {
            parts: part_memory.pointer,
            out: out.pointer,
            work: work.pointer,
            filters: filter_memory.pointer,
            bias: bias_memory.pointer,
            channels: channels as i32,
            length: length as i32,
        };
        kernels
            .launch(
                stream,
                Kernel::Convolve,
                [channels.div_ceil(128), 2],
                128,
                0,
                arguments,
            )
            .unwrap();
        let mut exact = Vec::new();
        for token in 0..6_usize {
            let place = if token < 4 { token } else { token - 4 };
            for channel in 0..channels {
                let at = |token: usize, part: usize| {
                    f64::from(parts[(token * 3 + part) * channels + channel])
                };
                let mut sum = f64::from(bias[channel]);
                for back in 0..=place.min(length - 1) {
                    let filter = f64::from(filters[(length - 1 - back) * channels + channel]);
                    sum += at(token - back, 0) * at(token - back, 2) * filter;
                }
                exact.push(sum * at(token, 1));
            }
        }
        near(
            "convolve",
            &bench.read_elements(&out, 6 * channels),
            &exact,
            2.0 * bench.unit(),
        );
        let (width, groups, tokens) = (37, 2, 3);
        let mut values = noise.values(tokens * width * groups);
        let memory = bench.elements(&mut values);
        let arguments = SharesArguments {
            values: memory.pointer,
            stride: (width * groups) as i32,
            width: width as i32,
            groups: groups as i32,
            tokens: tokens as i32,
        };
        kernels
            .launch(stream, Kernel::Shares, [2, 1], 128, 0, arguments)
            .unwrap();
        let exact: Vec<f64> = values
            .chunks(width)
            .flat_map(|group| {
                let each: Vec<f64> = group.iter().map(|it| f64::from(*it).exp()).collect();
                let sum: f64 = each.iter().sum();
                each.into_iter().map(move |it| it / sum)
            })
            .collect();
        let ours = bench.read_elements(&memory, tokens * width * groups);
        near("shares", &ours, &exact, bench.unit());
    }
}
