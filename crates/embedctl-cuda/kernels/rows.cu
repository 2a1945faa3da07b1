// Kernels of single tokens: embeddings, norms, rotary positions, activations. A warp or a block has a token, and sums in an
// order that the width alone decides.

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

// Norm of rows of at most PIECES * WARPS * 256 channels, which stay in registers. What is added afterwards is `base`.
template <int PIECES, int WARPS> DEVICE void norm_rows(const NormArguments &a) {
  SHARED(memory);
  float *parts = reinterpret_cast<float *>(memory);
  constexpr int STEP = WARPS * 256;
  const int token = WARPS == 1 ? BLOCK_X * 4 + (THREAD >> 5) : BLOCK_X;
  const int first = (WARPS == 1 ? THREAD & 31 : THREAD) * 8;
  if (token >= a.tokens) return;
  const void *input = row_of(a.input, a.input_is_wide, token, a.input_stride);
  float x[PIECES][8];
  float sum = 0.0f;
  UNROLL
  for (int piece = 0; piece < PIECES; piece++) {
    const int at = first + piece * STEP;
    if (at < a.width) {
      read_row(input, a.input_is_wide, at, a.width, x[piece]);
      UNROLL
      for (int i = 0; i < 8; i++) sum += x[piece][i];
    }
  }
  const float share = 1.0f / a.width;
  const float mean = a.is_rms ? 0.0f : token_sum<WARPS>(sum, parts) * share;
  float squares = 0.0f;
  UNROLL
  for (int piece = 0; piece < PIECES; piece++) {
    const int at = first + piece * STEP;
    UNROLL
    for (int i = 0; i < 8; i++)
      if (at + i < a.width) {
        const float apart = x[piece][i] - mean;
        squares = fmaf(apart, apart, squares);
      }
  }
  const float factor = 1.0f / sqrtf(token_sum<WARPS>(squares, parts) * share + a.epsilon);
  void *out = row_of(a.out, a.out_is_wide, token, a.out_stride);
  UNROLL
  for (int piece = 0; piece < PIECES; piece++) {
    const int at = first + piece * STEP;
    if (at >= a.width) continue;
    float weight[8], other[8];
    read_row(a.weight, true, at, a.width, weight);
    UNROLL
    for (int i = 0; i < 8; i++) x[piece][i] = (x[piece][i] - mean) * factor * weight[i];
    if (a.bias) {
      read_row(a.bias, true, at, a.width, other);
      UNROLL
      for (int i = 0; i < 8; i++) x[piece][i] += other[i];
    }
    if (a.base) {
      read_row(row_of(a.base, a.out_is_wide, token, a.out_stride), a.out_is_wide, at, a.width, other);
      UNROLL
      for (int i = 0; i < 8; i++) x[piece][i] += other[i];
    }
    write_row(out, a.out_is_wide, at, a.width, x[piece]);
  }
}
KERNEL(128, norm_256, NormArguments) { norm_rows<1, 1>(a); }
KERNEL(128, norm_512, NormArguments) { norm_rows<2, 1>(a); }
KERNEL(128, norm_768, NormArguments) { norm_rows<3, 1>(a); }
KERNEL(128, norm_1024, NormArguments) { norm_rows<4, 1>(a); }
KERNEL(128, norm_2048, NormArguments) { norm_rows<2, 4>(a); }
KERNEL(128, norm_4096, NormArguments) { norm_rows<4, 4>(a); }
KERNEL(256, norm_8192, NormArguments) { norm_rows<4, 8>(a); }
KERNEL(1024, norm_32768, NormArguments) { norm_rows<4, 32>(a); }

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
DEVICE float sigmoid(float x) { return 1.0f / (1.0f + power_of_two(-1.442695041f * x)); }
DEVICE float activated(float x, int activation) {
  switch (activation) {
    case 0: return gelu(x);
    case 1: return x * sigmoid(2.0f * 0.797884561f * x * fmaf(0.044715f * x, x, 1.0f));
    case 2: return x * sigmoid(1.702f * x);
    case 3: return x * sigmoid(x);
    case 4: return x < 0.0f ? 0.0f : x;
    default: return tanhf(x);
  }
}
// In place: the first half of a token's values, activated, times the second where they are gated. Gates overflow half
// precision only where their product does.
KERNEL(256, activate, ActivateArguments) {
  const int pieces = (a.width + 7) / 8;
  const unsigned index = (unsigned)BLOCK_X * THREADS + THREAD, token = index / pieces;
  const int at = (int)(index - token * pieces) * 8;
  if (token >= (unsigned)a.tokens) return;
  Element *row = static_cast<Element *>(a.values) + (long long)token * a.stride;
  const bool is_whole = a.width % 8 == 0 && a.stride % 8 == 0;
  float v[8], factor[8];
  if (is_whole) {
    read_elements(row + at, v);
    if (a.is_gated) read_elements(row + a.width + at, factor);
    UNROLL
    for (int i = 0; i < 8; i++) v[i] = activated(v[i], a.activation) * (a.is_gated ? factor[i] : 1.0f);
    write_elements(row + at, v);
    return;
  }
  for (int i = at; i < a.width && i < at + 8; i++) {
    const float gate = activated(widened(row[i]), a.activation);
    row[i] = narrowed(a.is_gated ? gate * widened(row[a.width + i]) : gate);
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
        for (int token = first; token < end; token++) {
          float x = states[(long long)token * a.width];
          if (mode == 5) { sum = x > sum || x != x ? x : sum; continue; }
          if (mode == 4) x *= (float)(token - first + 1);
          // What a sum of single precision loses is carried along: rows may have thousands of tokens.
          const float term = x - lost, next = sum + term;
          lost = (next - sum) - term;
          sum = next;
        }
        const float all = (float)count;
        value = mode == 2 ? sum / all : mode == 3 ? sum / sqrtf(all) : mode == 4 ? sum / (0.5f * all * (all + 1.0f)) : sum;
      }
    }
    a.out[(long long)row * a.out_stride + index * a.width + channel] = value;
  }
}
