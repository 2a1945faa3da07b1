//! Attention against plain code.

use super::*;
use embedctl_testing::stride;

/// Attention of one query, in double precision.
struct Plainly<'a> {
    heads: &'a [f32],
    stride: usize,
    size: usize,
    query_heads: usize,
    key_heads: usize,
    before: usize,
    after: usize,
    softcap: f64,
    bias: Option<(&'a [f32], usize)>,
}

impl Plainly<'_> {
    fn attend(&self, work: Work, head: usize, query: usize, out: &mut Vec<f64>) {
        let [start, seen] = [work.start, work.seen].map(|it| it as usize);
        let own = head / (self.query_heads / self.key_heads);
        let at = |token: usize, first: usize, channel: usize| {
            f64::from(self.heads[(start + token) * self.stride + first + channel])
        };
        let (keys, values) = (
            (self.query_heads + own) * self.size,
            (self.query_heads + self.key_heads + own) * self.size,
        );
        let scale = 1.0 / (self.size as f64).sqrt();
        let mut scores = Vec::new();
        for key in 0..seen {
            if query > key.saturating_add(self.before) || key > query.saturating_add(self.after) {
                scores.push(f64::NEG_INFINITY);
                continue;
            }
            let product: f64 = (0..self.size)
                .map(|channel| at(query, head * self.size, channel) * at(key, keys, channel))
                .sum();
            let mut score = product * scale;
            if self.softcap > 0.0 {
                score = self.softcap * (score / self.softcap).tanh();
            }
            if let Some((bias, reach)) = self.bias {
                let far = key as isize - query as isize;
                let far = far.clamp(-(reach as isize), reach as isize) + reach as isize;
                score += f64::from(bias[head * (2 * reach + 1) + far as usize]);
            }
            scores.push(score);
        }
        let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let shares: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
        let sum: f64 = shares.iter().sum();
        out.extend((0..self.size).map(|channel| {
            let each = shares.iter().enumerate();
            each.map(|(key, share)| share / sum * at(key, values, channel))
                .sum::<f64>()
        }));
    }
}

/// A case of attention: heads, heads of keys, width, sight, cap and whether there is a bias.
#[derive(Debug, Clone, Copy)]
struct Case {
    query_heads: usize,
    key_heads: usize,
    size: usize,
    before: usize,
    after: usize,
    softcap: f32,
    has_bias: bool,
}

const ALL: usize = usize::MAX;

impl Case {
    /// Values of a token's queries, keys and values.
    fn stride(&self) -> usize {
        (self.query_heads + 2 * self.key_heads) * self.size
    }

    /// A row's work from this query on. Of one row the last token is not seen, as expansions of queries are.
    fn work(&self, lengths: &[usize], index: usize, query: usize) -> Work {
        let start = lengths[..index].iter().sum::<usize>();
        let length = lengths[index];
        let seen = if index == 1 && self.before == ALL {
            length.max(2) - 1
        } else {
            length
        };
        Work {
            start: start as i32,
            length: length as i32,
            seen: seen as i32,
            query: query as i32,
        }
    }
}

/// Keys up to this distance have a bias of their own.
const REACH: usize = 9;

fn attention(bench: &Bench, case: Case, lengths: &[usize]) {
    let tokens: usize = lengths.iter().sum();
    let mut noise = Noise(7);
    let mut heads = noise.values(tokens * case.stride());
    let bias = noise.values(case.query_heads * (2 * REACH + 1));
    let all = attended(bench, case, lengths, &mut heads, &bias);
    let plainly = Plainly {
        heads: &heads,
        stride: case.stride(),
        size: case.size,
        query_heads: case.query_heads,
        key_heads: case.key_heads,
        before: case.before,
        after: case.after,
        softcap: f64::from(case.softcap),
        bias: case.has_bias.then_some((&bias, REACH)),
    };
    let mut exact = Vec::new();
    for (index, length) in lengths.iter().enumerate() {
        for query in 0..*length {
            for head in 0..case.query_heads {
                let work = case.work(lengths, index, 0);
                plainly.attend(work, head, query, &mut exact);
            }
        }
    }
    for (kernel, ours) in all {
        let what = format!("{} of {case:?} in {:?}", kernel.name(), bench.element);
        near(&what, &ours, &exact, 3.0 * bench.unit());
    }
}

/// The results of all kernels that run a case. The heads are rounded to elements.
fn attended(
    bench: &Bench,
    case: Case,
    lengths: &[usize],
    heads: &mut [f32],
    bias: &[f32],
) -> Vec<(Kernel, Vec<f32>)> {
    let Case {
        query_heads,
        key_heads,
        size,
        before,
        after,
        softcap,
        has_bias,
    } = case;
    let stride = case.stride();
    let tokens: usize = lengths.iter().sum();
    let memory = bench.elements(heads);
    let bias_memory = bench.put(bias);
    let far = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let padded = size.next_multiple_of(16);
    let by_tensor_cores = bench.element != CardElement::F32 && size % 8 == 0;
    let together = (1..=(64 / padded).max(1))
        .rev()
        .find(|it| key_heads % it == 0)
        .unwrap();
    let arguments = AttendArguments {
        heads: memory.pointer,
        bias: if has_bias { bias_memory.pointer } else { 0 },
        scale: 1.0 / (size as f32).sqrt(),
        softcap,
        stride: far(stride),
        out_stride: far(query_heads * size),
        key_at: far(query_heads * size),
        value_at: far((query_heads + key_heads) * size),
        size: far(size),
        group: far(query_heads / key_heads),
        together: far(together),
        before: far(before),
        after: far(after),
        bias_reach: far(REACH),
        query_heads: far(query_heads),
        ..AttendArguments::default()
    };
    let extras = has_bias || softcap > 0.0;
    let mut flavours = vec![(Kernel::AttendAny, 16)];
    if by_tensor_cores {
        flavours.push(match extras {
            true => (Kernel::AttendShortExtras, ALL),
            false => (Kernel::AttendShort, ALL),
        });
        flavours.push(match extras {
            true => (Kernel::AttendLongExtras, 64),
            false => (Kernel::AttendLong, 64),
        });
    }
    let mut all = Vec::new();
    for (kernel, step) in flavours {
        let mut work = Vec::new();
        for (index, length) in lengths.iter().enumerate() {
            for query in (0..*length).step_by(step.min(*length)) {
                let Work {
                    start,
                    length,
                    seen,
                    query,
                } = case.work(lengths, index, query);
                work.extend([start, length, seen, query]);
            }
        }
        let items = work.len() / 4;
        let work = bench.put(&work);
        let out = bench.room(tokens * query_heads * size);
        let arguments = AttendArguments {
            work: work.pointer,
            out: out.pointer,
            ..arguments
        };
        let token = 2 * padded + 16;
        let longest = lengths.iter().max().unwrap().next_multiple_of(16);
        let (heads, shared) = match kernel {
            Kernel::AttendAny => (query_heads, (64 * (padded + 1) + 16 * padded) * 4),
            Kernel::AttendShort | Kernel::AttendShortExtras => {
                (key_heads / together, 2 * together * longest * token)
            }
            _ => (query_heads, 4 * if padded <= 128 { 64 } else { 32 } * token),
        };
        let blocks = [items, heads];
        // Warps of the kernel for short rows share all tasks, however many there are of both.
        let threads: &[usize] = match kernel {
            Kernel::AttendShort | Kernel::AttendShortExtras => &[32, 64, 96, 128],
            _ => &[128],
        };
        for threads in threads {
            let kernels = &bench.kernels;
            kernels
                .launch(&bench.stream, kernel, blocks, *threads, shared, arguments)
                .unwrap();
            let ours = bench.read_elements(&out, tokens * query_heads * size);
            all.push((kernel, ours));
        }
    }
    all
}

#[test]
fn attention_of_every_width_length_and_sight_is_that_of_plain_code() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    let plain = Case {
        query_heads: 2,
        key_heads: 2,
        size: 64,
        before: ALL,
        after: ALL,
        softcap: 0.0,
        has_bias: false,
    };
    let lengths = [1, 5, 16, 17, 33, 68, 97];
    for (number, element) in ELEMENTS.into_iter().enumerate() {
        let sizes = [4, 8, 12, 16, 20, 32, 64, 80, 96, 128, 256].into_iter();
        // Each size and element has kernels of its own, which take half a second to compile.
        for size in sizes.skip(number % stride(3)).step_by(stride(3)) {
            let bench = Bench::new(&emulator, element, size);
            let case = Case { size, ..plain };
            attention(
                &bench,
                case,
                if size == 64 { &lengths } else { &lengths[..5] },
            );
            let lengths = &lengths[2..if size == 64 { 7 } else { 5 }];
            let grouped = Case {
                query_heads: 4,
                key_heads: 1,
                after: 0,
                ..case
            };
            attention(&bench, grouped, lengths);
            attention(
                &bench,
                Case {
                    before: 6,
                    after: 6,
                    ..case
                },
                lengths,
            );
            if size == 16 || size == 64 {
                attention(
                    &bench,
                    Case {
                        softcap: 1.5,
                        before: 20,
                        after: 0,
                        ..case
                    },
                    lengths,
                );
                attention(
                    &bench,
                    Case {
                        has_bias: true,
                        ..case
                    },
                    lengths,
                );
            }
        }
    }
}

#[test]
fn queries_and_keys_that_overflow_show_in_what_attention_gives() {
    let Some(emulator) = Emulator::open() else {
        return;
    };
    let lengths = [5, 18, 4, 5];
    for size in [12, 16] {
        let bench = Bench::new(&emulator, CardElement::F16, size);
        let plain = Case {
            query_heads: 1,
            key_heads: 1,
            size,
            before: ALL,
            after: ALL,
            softcap: 0.0,
            has_bias: false,
        };
        let causal = Case { after: 0, ..plain };
        let bent = Case {
            softcap: 1.5,
            ..plain
        };
        let biased = Case {
            has_bias: true,
            ..plain
        };
        for case in [plain, causal, bent, biased] {
            let mut noise = Noise(5);
            let mut heads = noise.values(32 * case.stride());
            heads.iter_mut().for_each(|value| *value = value.abs());
            let bias = noise.values(2 * REACH + 1);
            // All scores of a query are -infinity; then it is NaN; then a key's score is infinite for all queries.
            heads[3 * case.stride()] = -1e6;
            heads[8 * case.stride()] = f32::NAN;
            heads[23 * case.stride() + size] = 1e6;
            for (kernel, ours) in attended(&bench, case, &lengths, &mut heads, &bias) {
                let tokens = ours.chunks(size).enumerate();
                let lost = tokens.filter(|(_, values)| values.iter().all(|it| it.is_nan()));
                let lost: Vec<usize> = lost.map(|(token, _)| token).collect();
                assert_eq!(
                    lost,
                    [3, 8, 23, 24, 25, 26],
                    "{} of {case:?}",
                    kernel.name()
                );
                let finite = ours.iter().filter(|value| value.is_finite()).count();
                assert_eq!(finite, (32 - 6) * size, "{} of {case:?}", kernel.name());
            }
        }
    }
}
