// Kernels of single tokens: embeddings, norms, rotary positions, activations. A warp or a block has a token, and sums in an
// order that the width alone decides. Kernels behind a product begin with the last token: what the product wrote last may
// still lie in the card's cache, and what they write last, which the next product reads first.

KERNEL(128, embed, EmbedArguments) {
  const int token = BLOCK_X * 4 + (THREAD >> 5), lane = THREAD & 31;
  if (token >= a.tokens) return;
  const void *word = row_of(a.words, false, a.ids[token], a.width);
  const void *place = a.positions ? row_of(a.positions, false, a.places[token], a.width) : nullptr;
  const float *type = a.types ? a.types + (long long)(a.kinds ? a.kinds[token] : 0) * a.width : nullptr;
  void *out = row_of(a.out, a.is_wide, token, a.width);
  for (int at = lane * 8; at < a.width; at += 256) {
    float v[8], more[8];
    read_row(word, false, at, a.width, v);
    for (int i = 0; i < 8; i++) v[i] *= a.scale;
    if (type) {
      read_row(type, true, at, a.width, more);
      for (int i = 0; i < 8; i++) v[i] += more[i];
    }
    if (place) {
      read_row(place, false, at, a.width, more);
      for (int i = 0; i < 8; i++) v[i] += more[i];
    }
    write_row(out, a.is_wide, at, a.width, v);
  }
}

// The sum over the threads of a token: one warp, or all warps of the block, which meet in shared memory.
template <int WARPS> DEVICE float token_sum(float value, float *parts) {
  value = warp_sum(value);
  if (WARPS == 1) return value;
  block_wait();
  if ((THREAD & 31) == 0) parts[THREAD >> 5] = value;
  block_wait();
  float sum = 0.0f;
  for (int i = 0; i < WARPS; i++) sum += parts[i];
  return sum;
}

// Norm of rows of at most PIECES * WARPS * 256 channels, which stay in registers. What is added afterwards is `base`. Rows of
// whole pieces of eight channels have no checks and no branches within them: most of a norm's time is instructions.
template <int PIECES, int WARPS, bool IS_WHOLE, bool WIDE_IN, bool WIDE_OUT> DEVICE void norm_some(const NormArguments &a) {
  SHARED(memory);
  float *parts = reinterpret_cast<float *>(memory);
  constexpr int STEP = WARPS * 256;
  const int token = a.tokens - 1 - (WARPS == 1 ? BLOCK_X * 4 + (THREAD >> 5) : BLOCK_X);
  const int first = (WARPS == 1 ? THREAD & 31 : THREAD) * 8;
  if (token < 0) return;
  auto read = [&](const void *row, bool is_wide, int at, float (&v)[8]) {
    if (!IS_WHOLE) read_row(row, is_wide, at, a.width, v);
    else if (is_wide) read_wide(static_cast<const float *>(row) + at, v);
    else read_elements(static_cast<const Element *>(row) + at, v);
  };
  const bool wide_in = IS_WHOLE ? WIDE_IN : a.input_is_wide, wide_out = IS_WHOLE ? WIDE_OUT : a.out_is_wide;
  const void *input = row_of(a.input, wide_in, token, a.input_stride);
  float x[PIECES][8];
  float sum = 0.0f;
  UNROLL
  for (int piece = 0; piece < PIECES; piece++) {
    const int at = first + piece * STEP;
    UNROLL
    for (int i = 0; i < 8; i++) x[piece][i] = 0.0f;
    if (at < a.width) read(input, wide_in, at, x[piece]);
  }
  UNROLL
  for (int piece = 0; piece < PIECES; piece++)
    UNROLL
    for (int i = 0; i < 8; i++) sum += x[piece][i];
  const float share = 1.0f / a.width;
  const float mean = a.is_rms ? 0.0f : token_sum<WARPS>(sum, parts) * share;
  float squares = 0.0f;
  UNROLL
  for (int piece = 0; piece < PIECES; piece++) {
    const int at = first + piece * STEP;
    UNROLL
    for (int i = 0; i < 8; i++) {
      const float apart = x[piece][i] - mean;
      if (at + (IS_WHOLE ? 0 : i) < a.width) squares = fmaf(apart, apart, squares);
    }
  }
  const float factor = 1.0f / sqrtf(token_sum<WARPS>(squares, parts) * share + a.epsilon);
  void *out = row_of(a.out, wide_out, token, a.out_stride);
  UNROLL
  for (int piece = 0; piece < PIECES; piece++) {
    const int at = first + piece * STEP;
    if (at >= a.width) continue;
    float weight[8], other[8];
    read(a.weight, true, at, weight);
    UNROLL
    for (int i = 0; i < 8; i++) x[piece][i] = (x[piece][i] - mean) * factor * weight[i];
    if (a.bias) {
      read(a.bias, true, at, other);
      UNROLL
      for (int i = 0; i < 8; i++) x[piece][i] += other[i];
    }
    if (a.base) {
      read(row_of(a.base, wide_out, token, a.out_stride), wide_out, at, other);
      UNROLL
      for (int i = 0; i < 8; i++) x[piece][i] += other[i];
    }
    if (!IS_WHOLE) write_row(out, wide_out, at, a.width, x[piece]);
    else if (wide_out) write_wide(static_cast<float *>(out) + at, x[piece]);
    else write_elements(static_cast<Element *>(out) + at, x[piece]);
  }
}
template <int PIECES, int WARPS> DEVICE void norm_rows(const NormArguments &a) {
  // The widest rows have no registers for it, and are rare.
  if constexpr (WARPS == 32) norm_some<PIECES, WARPS, false, false, false>(a);
  else if (a.width % 8 || a.input_stride % 8 || a.out_stride % 8) norm_some<PIECES, WARPS, false, false, false>(a);
  else if (a.input_is_wide && a.out_is_wide) norm_some<PIECES, WARPS, true, true, true>(a);
  else if (a.input_is_wide) norm_some<PIECES, WARPS, true, true, false>(a);
  else if (a.out_is_wide) norm_some<PIECES, WARPS, true, false, true>(a);
  else norm_some<PIECES, WARPS, true, false, false>(a);
}
#if NORMS & 1
KERNEL(128, norm_256, NormArguments) { norm_rows<1, 1>(a); }
#endif
#if NORMS & 2
KERNEL(128, norm_512, NormArguments) { norm_rows<2, 1>(a); }
#endif
#if NORMS & 4
KERNEL(128, norm_768, NormArguments) { norm_rows<3, 1>(a); }
#endif
#if NORMS & 8
KERNEL(128, norm_1024, NormArguments) { norm_rows<4, 1>(a); }
#endif
#if NORMS & 16
KERNEL(128, norm_2048, NormArguments) { norm_rows<2, 4>(a); }
#endif
#if NORMS & 32
KERNEL(128, norm_4096, NormArguments) { norm_rows<4, 4>(a); }
#endif
#if NORMS & 64
KERNEL(256, norm_8192, NormArguments) { norm_rows<4, 8>(a); }
#endif
#if NORMS & 128
KERNEL(1024, norm_32768, NormArguments) { norm_rows<4, 32>(a); }
#endif

// Rows in the other type.
KERNEL(128, convert, ConvertArguments) {
  const int token = BLOCK_X * 4 + (THREAD >> 5), lane = THREAD & 31;
  if (token >= a.tokens) return;
  for (int at = lane * 8; at < a.width; at += 256) {
    float v[8];
    read_row(row_of(a.input, a.input_is_wide, token, a.width), a.input_is_wide, at, a.width, v);
    write_row(row_of(a.out, a.out_is_wide, token, a.width), a.out_is_wide, at, a.width, v);
  }
}

template <int STEP> DEVICE void read_some(const Element *p, float (&v)[STEP]) {
  if constexpr (STEP == 2) read_two(p, v);
  else v[0] = widened(*p);
}
template <int STEP> DEVICE void write_some(Element *p, const float (&v)[STEP]) {
  if constexpr (STEP == 2) write_two(p, v);
  else *p = narrowed(v[0]);
}

// A head of queries or keys of a token: its norm, and its channels i and i + pairs turned by the token's angle.
template <int STEP> DEVICE void turn_head(const TurnArguments &a, int token, int head, int lane) {
  Element *p = static_cast<Element *>(row_of(a.heads, false, token, a.stride)) + (long long)head * a.size;
  const float *weight = head < a.queries ? a.query_weight : a.key_weight;
  const float *bias = head < a.queries ? a.query_bias : a.key_bias;
  float mean = 0.0f, factor = 1.0f;
  if (weight) {
    float sum = 0.0f, squares = 0.0f;
    if (!a.is_rms) {
      for (int at = lane * STEP; at < a.size; at += 32 * STEP) {
        float v[STEP];
        read_some<STEP>(p + at, v);
        for (int i = 0; i < STEP; i++) sum += v[i];
      }
      mean = warp_sum(sum) / a.size;
    }
    for (int at = lane * STEP; at < a.size; at += 32 * STEP) {
      float v[STEP];
      read_some<STEP>(p + at, v);
      for (int i = 0; i < STEP; i++) squares = fmaf(v[i] - mean, v[i] - mean, squares);
    }
    factor = 1.0f / sqrtf(warp_sum(squares) / a.size + a.epsilon);
  }
  auto normed = [&](int at, float (&v)[STEP]) {
    read_some<STEP>(p + at, v);
    if (weight)
      for (int i = 0; i < STEP; i++) v[i] = (v[i] - mean) * factor * weight[at + i] + (bias ? bias[at + i] : 0.0f);
  };
  const float *angles = a.pairs ? a.table + (long long)a.places[token] * a.pairs * 2 : nullptr;
  for (int at = lane * STEP; at < a.pairs; at += 32 * STEP) {
    float one[STEP], other[STEP], first[STEP], second[STEP];
    normed(at, one);
    normed(at + a.pairs, other);
    for (int i = 0; i < STEP; i++) {
      const float cosine = angles[2 * (at + i)], sine = angles[2 * (at + i) + 1];
      first[i] = one[i] * cosine - other[i] * sine;
      second[i] = other[i] * cosine + one[i] * sine;
    }
    write_some<STEP>(p + at, first);
    write_some<STEP>(p + at + a.pairs, second);
  }
  if (weight)
    for (int at = 2 * a.pairs + lane * STEP; at < a.size; at += 32 * STEP) {
      float v[STEP];
      normed(at, v);
      write_some<STEP>(p + at, v);
    }
}
KERNEL(128, turn, TurnArguments) {
  const int heads = a.queries + a.keys, task = BLOCK_X * 4 + (THREAD >> 5), lane = THREAD & 31;
  const int token = task / heads, head = task - token * heads;
  if (token >= a.tokens) return;
  if (a.by_twos) turn_head<2>(a, token, head, lane);
  else turn_head<1>(a, token, head, lane);
}

// The same where all channels of a head are turned, or none, and it has a power of two of them: a lane has eight channels, and
// a warp all heads of a token, so that weights and angles are read once.
KERNEL(128, turn_whole, TurnArguments) {
  constexpr int AT_ONCE = 4;
  const int token = a.tokens - 1 - (BLOCK_X * 4 + (THREAD >> 5)), lane = THREAD & 31;
  if (token < 0) return;
  const int lanes = a.size / 8, at = (lane & (lanes - 1)) * 8, beside = 32 / lanes, heads = a.queries + a.keys;
  Element *row = static_cast<Element *>(row_of(a.heads, false, token, a.stride)) + at;
  float cosines[8], sines[8], of_query[8], of_key[8];
  if (a.pairs) {
    const float *angles = a.table + ((long long)a.places[token] * a.pairs + (at & (a.pairs - 1))) * 2;
    const float sign = at < a.pairs ? -1.0f : 1.0f;
    for (int half = 0; half < 2; half++) {
      float two[8];
      read_wide(angles + 8 * half, two);
      UNROLL
      for (int i = 0; i < 4; i++) {
        cosines[4 * half + i] = two[2 * i];
        sines[4 * half + i] = two[2 * i + 1] * sign;
      }
    }
  }
  if (a.query_weight) {
    read_wide(a.query_weight + at, of_query);
    read_wide(a.key_weight + at, of_key);
  }
  for (int from = lane / lanes; from - lane / lanes < heads; from += AT_ONCE * beside) {
    float v[AT_ONCE][8];
    UNROLL
    for (int one = 0; one < AT_ONCE; one++) {
      for (int i = 0; i < 8; i++) v[one][i] = 0.0f;
      if (from + one * beside < heads) read_elements(row + (from + one * beside) * a.size, v[one]);
    }
    UNROLL
    for (int one = 0; one < AT_ONCE; one++) {
      const int head = from + one * beside;
      if (a.query_weight) {
        float squares = 0.0f;
        UNROLL
        for (int i = 0; i < 8; i++) squares = fmaf(v[one][i], v[one][i], squares);
        for (int mask = lanes / 2; mask; mask >>= 1) squares += lane_xor(squares, mask);
        const float factor = 1.0f / sqrtf(squares / a.size + a.epsilon);
        UNROLL
        for (int i = 0; i < 8; i++) v[one][i] *= factor * (head < a.queries ? of_query[i] : of_key[i]);
      }
      if (a.pairs) {
        UNROLL
        for (int i = 0; i < 8; i++) v[one][i] = v[one][i] * cosines[i] + lane_xor(v[one][i], lanes / 2) * sines[i];
      }
      if (head < heads) write_elements(row + head * a.size, v[one]);
    }
  }
}

// x by the standard normal distribution, by erfc (Abramowitz and Stegun 7.1.26: within 1.5e-7) where elements have 16 bits.
DEVICE float gelu(float x) {
#if ELEMENT == 0
  return 0.5f * x * (1.0f + erff(x * 0.707106781f));
#else
  const float z = fabsf(x) * 0.707106781f, t = reciprocal(fmaf(0.3275911f, z, 1.0f));
  float p = fmaf(t, 1.061405429f, -1.453152027f);
  p = fmaf(t, p, 1.421413741f);
  p = fmaf(t, p, -0.284496736f);
  p = fmaf(t, p, 0.254829592f);
  const float tail = 0.5f * fabsf(x) * (p * t) * power_of_two(-1.442695041f * z * z);
  return x > 0.0f ? x - tail : -tail;
#endif
}
DEVICE float sigmoid(float x) { return reciprocal(1.0f + power_of_two(-1.442695041f * x)); }
template <int ACTIVATION> DEVICE float activated(float x) {
  switch (ACTIVATION) {
    case 0: return gelu(x);
    case 1: return x * sigmoid(2.0f * 0.797884561f * x * fmaf(0.044715f * x, x, 1.0f));
    case 2: return x * sigmoid(1.702f * x);
    case 3: return x * sigmoid(x);
    case 4: return x < 0.0f ? 0.0f : x;
    default: return tanhf(x);
  }
}
// In place: the first half of a token's values, activated, times the second where they are gated. Gates overflow half
// precision only where their product does. A thread has two pieces of eight values, which are read beside each other.
template <int ACTIVATION> DEVICE void activate_some(const ActivateArguments &a) {
  const int pieces = (a.width + 7) / 8;
  const unsigned all = (unsigned)a.tokens * pieces, index = (unsigned)BLOCK_X * 2 * THREADS + THREAD;
  const bool is_whole = a.width % 8 == 0 && a.stride % 8 == 0;
  Element *row[2];
  int at[2];
  UNROLL
  for (int one = 0; one < 2; one++) {
    const unsigned behind = index + one * THREADS, piece = all - 1 - behind, token = piece / pieces;
    at[one] = (int)(piece - token * pieces) * 8;
    row[one] = behind < all ? static_cast<Element *>(a.values) + (long long)token * a.stride : nullptr;
  }
  if (!is_whole) {
    for (int one = 0; one < 2; one++)
      if (row[one])
        for (int i = at[one]; i < a.width && i < at[one] + 8; i++) {
          const float gate = activated<ACTIVATION>(widened(row[one][i]));
          row[one][i] = narrowed(a.is_gated ? gate * widened(row[one][a.width + i]) : gate);
        }
    return;
  }
  float v[2][8], factor[2][8];
  UNROLL
  for (int one = 0; one < 2; one++)
    if (row[one]) {
      read_elements(row[one] + at[one], v[one]);
      if (a.is_gated) read_elements(row[one] + a.width + at[one], factor[one]);
    }
  UNROLL
  for (int one = 0; one < 2; one++)
    if (row[one]) {
      UNROLL
      for (int i = 0; i < 8; i++) v[one][i] = activated<ACTIVATION>(v[one][i]);
      if (a.is_gated) {
        UNROLL
        for (int i = 0; i < 8; i++) v[one][i] *= factor[one][i];
      }
      write_elements(row[one] + at[one], v[one]);
    }
}
KERNEL(256, activate, ActivateArguments) {
  switch (a.activation) {
    case 0: return activate_some<0>(a);
    case 1: return activate_some<1>(a);
    case 2: return activate_some<2>(a);
    case 3: return activate_some<3>(a);
    case 4: return activate_some<4>(a);
    default: return activate_some<5>(a);
  }
}

// A convolution over a token and those before it, channel by channel, between two gates.
KERNEL(128, convolve, ConvolveArguments) {
  const Work work = a.work[BLOCK_Y];
  const int channel = BLOCK_X * 128 + THREAD;
  if (channel >= a.channels) return;
  const Element *parts = static_cast<const Element *>(a.parts);
  Element *out = static_cast<Element *>(a.out);
  for (int token = 0; token < work.length; token++) {
    float sum = a.bias ? a.bias[channel] : 0.0f;
    const int farthest = a.length - 1 < token ? a.length - 1 : token;
    for (int back = farthest; back >= 0; back--) {
      const Element *p = parts + (long long)(work.start + token - back) * 3 * a.channels + channel;
      sum = fmaf(widened(p[0]) * widened(p[2 * a.channels]), a.filters[(a.length - 1 - back) * a.channels + channel], sum);
    }
    const float gate = widened(parts[((long long)(work.start + token) * 3 + 1) * a.channels + channel]);
    out[(long long)(work.start + token) * a.channels + channel] = narrowed(sum * gate);
  }
}

// Softmax of each group of values of a token, in place: a warp a group.
KERNEL(128, shares, SharesArguments) {
  const int task = BLOCK_X * 4 + (THREAD >> 5), lane = THREAD & 31;
  const int token = task / a.groups, group = task - token * a.groups;
  if (token >= a.tokens) return;
  Element *p = static_cast<Element *>(a.values) + (long long)token * a.stride + (long long)group * a.width;
  float most = -INFINITY, sum = 0.0f;
  for (int at = lane; at < a.width; at += 32) most = fmaxf(most, widened(p[at]));
  most = warp_most(most);
  for (int at = lane; at < a.width; at += 32) sum += power_of_two((widened(p[at]) - most) * 1.442695041f);
  sum = 1.0f / warp_sum(sum);
  for (int at = lane; at < a.width; at += 32) p[at] = narrowed(power_of_two((widened(p[at]) - most) * 1.442695041f) * sum);
}

// One vector of a row's tokens for each mode: 0 first, 1 last, 2 mean, 3 mean by the root of the count, 4 weighted mean,
// 5 greatest. A thread has a channel and adds the tokens in their order.
KERNEL(128, pool, PoolArguments) {
  const int row = BLOCK_Y, channel = BLOCK_X * 128 + THREAD;
  if (channel >= a.width) return;
  const int first = a.spans[2 * row], end = a.spans[2 * row + 1], count = end - first;
  const float *states = static_cast<const float *>(a.states) + channel;
  for (int index = 0; index < a.mode_count; index++) {
    const int mode = a.modes[index];
    float value = 0.0f;
    if (count > 0) {
      if (mode == 0) value = states[(long long)first * a.width];
      else if (mode == 1) value = states[(long long)(end - 1) * a.width];
      else {
        float sum = mode == 5 ? -INFINITY : 0.0f, lost = 0.0f;
        // Some at a time, so that they are read beside each other.
        for (int from = first; from < end; from += 8) {
          float some[8];
          UNROLL
          for (int i = 0; i < 8; i++) some[i] = from + i < end ? states[(long long)(from + i) * a.width] : 0.0f;
          UNROLL
          for (int i = 0; i < 8; i++) {
            if (from + i >= end) continue;
            float x = some[i];
            if (mode == 5) { x = shown(x); sum = x > sum || x != x ? x : sum; continue; }
            if (mode == 4) x *= (float)(from + i - first + 1);
            // What a sum of single precision loses is carried along: rows may have thousands of tokens.
            const float term = x - lost, next = sum + term;
            lost = (next - sum) - term;
            sum = next;
          }
        }
        const float all = (float)count;
        value = mode == 2 ? sum / all : mode == 3 ? sum / sqrtf(all) : mode == 4 ? sum / (0.5f * all * (all + 1.0f)) : sum;
      }
    }
    a.out[(long long)row * a.out_stride + index * a.width + channel] = value;
  }
}
