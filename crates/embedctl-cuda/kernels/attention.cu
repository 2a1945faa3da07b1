// Attention of a row's queries to its keys. A row's own length chooses the kernel, and keys are added in an order that
// depends on nothing else, so that a row has the same bits in any company.
//
// attend_any takes every shape and every addition to scores, in single precision. attend_short and attend_long multiply
// with tensor cores: the one keeps all keys and values of a row and some heads in shared memory, the other passes them
// through it in tiles.
//
// A query or a key that overflows makes the result NaN. One case is left in the kernels of tensor cores without extras: a key
// whose scores are -infinity for all queries counts as hidden. A check would be one more operation for every score, and keys
// are products of normed states, which hardly overflow.

DEVICE float bent(float x) {
#if ELEMENT == 0
  return tanhf(x);
#else
  // Within 1e-7 of it, in a few instructions: this stands in unrolled loops.
  return 1.0f - 2.0f * reciprocal(1.0f + power_of_two(2.885390082f * x));
#endif
}

// A score behind everything that is added to it; hidden ones are -infinity. In units of the exponent's base 2.
DEVICE float whole_score(const AttendArguments &a, float product, int head, int query, int key, int seen) {
  if (key >= seen || query - key > a.before || key - query > a.after) return -INFINITY;
  float score = shown(product) * a.scale;
  if (a.softcap > 0.0f) score = a.softcap * bent(score / a.softcap);
  if (a.bias) {
    int far = key - query;
    far = far < -a.bias_reach ? -a.bias_reach : far > a.bias_reach ? a.bias_reach : far;
    score += a.bias[head * (2 * a.bias_reach + 1) + a.bias_reach + far];
  }
  return score * 1.442695041f;
}

// Keys that at least one of the queries from `query` on sees: the first, and the end.
DEVICE int first_key(const AttendArguments &a, int query) { return query > a.before ? query - a.before : 0; }
DEVICE int end_of_keys(const AttendArguments &a, int last_query, int seen) {
  return a.after < seen - 1 - last_query ? last_query + a.after + 1 : seen;
}

// 16 queries of a head: four a warp, a key a lane.
KERNEL(128, attend_any, AttendArguments) {
  SHARED(memory);
  constexpr int STRIDE = HEAD + 1, CHANNELS = (HEAD + 31) / 32;
  float *keys = reinterpret_cast<float *>(memory), *values = keys + 32 * STRIDE, *queries = values + 32 * STRIDE;
  const Work work = a.work[BLOCK_X];
  const int head = BLOCK_Y, lane = THREAD & 31, warp = THREAD >> 5;
  const Element *heads = static_cast<const Element *>(a.heads);
  for (int i = THREAD; i < 16 * HEAD; i += 128) {
    const int query = work.query + i / HEAD, channel = i % HEAD;
    const bool is_there = query < work.length && channel < a.size;
    queries[i] = is_there ? widened(heads[(long long)(work.start + query) * a.stride + head * a.size + channel]) : 0.0f;
  }
  float out[4][CHANNELS], most[4], sum[4];
  UNROLL
  for (int q = 0; q < 4; q++) {
    most[q] = -INFINITY;
    sum[q] = 0.0f;
    UNROLL
    for (int c = 0; c < CHANNELS; c++) out[q][c] = 0.0f;
  }
  int last = work.query + 15;
  last = last < work.length ? last : work.length - 1;
  const int end = end_of_keys(a, last, work.seen);
  for (int tile = first_key(a, work.query) / 32 * 32; tile < end; tile += 32) {
    block_wait();
    for (int i = THREAD; i < 32 * HEAD; i += 128) {
      const int key = tile + i / HEAD, channel = i % HEAD;
      const bool is_there = key < work.seen && channel < a.size;
      const Element *p = heads + (long long)(work.start + key) * a.stride + head / a.group * a.size + channel;
      keys[i / HEAD * STRIDE + channel] = is_there ? widened(p[a.key_at]) : 0.0f;
      values[i / HEAD * STRIDE + channel] = is_there ? widened(p[a.value_at]) : 0.0f;
    }
    block_wait();
    UNROLL
    for (int q = 0; q < 4; q++) {
      const int query = work.query + warp * 4 + q, key = tile + lane;
      if (query >= work.length) continue;
      float score = 0.0f;
      for (int c = 0; c < HEAD; c++) score = fmaf(queries[(warp * 4 + q) * HEAD + c], keys[lane * STRIDE + c], score);
      score = whole_score(a, score, head, query, key, work.seen);
      if (a.relative_rows && score > -INFINITY) {
        int far = query - key;
        far = far < -a.relative_reach ? -a.relative_reach : far > a.relative_reach ? a.relative_reach : far;
        const int row = a.relative_rows[far + a.relative_reach];
        float more = 0.0f;
        const Element *of_query = static_cast<const Element *>(a.query_scores), *of_key = static_cast<const Element *>(a.key_scores);
        if (of_query) more += widened(of_query[((long long)head * a.together + work.start + query) * a.relative_count + row]);
        if (of_key) more += widened(of_key[((long long)head * a.together + work.start + key) * a.relative_count + row]);
        score += shown(more) * a.scale * 1.442695041f;
      }
      const float highest = fmaxf(most[q], warp_most(score));
      // Of keys that are all hidden the shares are 0; a score that is NaN stays so.
      const float base = highest == -INFINITY ? 0.0f : highest;
      const float kept = power_of_two(most[q] - base), share = power_of_two(score - base);
      most[q] = highest;
      sum[q] = sum[q] * kept + warp_sum(share);
      UNROLL
      for (int c = 0; c < CHANNELS; c++) out[q][c] *= kept;
      for (int j = 0; j < 32; j++) {
        const float of_key = lane_get(share, j);
        UNROLL
        for (int c = 0; c < CHANNELS; c++)
          if (c * 32 + lane < HEAD) out[q][c] = fmaf(of_key, values[j * STRIDE + c * 32 + lane], out[q][c]);
      }
    }
  }
  UNROLL
  for (int q = 0; q < 4; q++) {
    const int query = work.query + warp * 4 + q;
    if (query >= work.length) continue;
    Element *to = static_cast<Element *>(a.out) + (long long)(work.start + query) * a.out_stride + head * a.size;
    UNROLL
    for (int c = 0; c < CHANNELS; c++) {
      const int channel = c * 32 + lane;
      if (channel < a.size) to[channel] = narrowed(sum[q] != 0.0f ? out[q][c] / sum[q] : 0.0f);
    }
  }
}

#if ELEMENT != 0
// Bytes from token to token in shared memory: an odd number of pieces of 16 bytes, so that the eight rows of a matrix lie
// in different banks.
constexpr int TOKEN_BYTES = HEAD * 2 + 16;
// Keys that a warp takes at a time at most, in sixteens: scores, queries and output share the registers, and of warps that use
// fewer of them more run beside each other.
constexpr int SIXTEENS = HEAD <= 128 ? 2 : 1;

// A warp's 16 queries of one head, and what they have gathered.
template <bool HAS_EXTRAS> struct WarpQueries {
  unsigned q[HEAD / 16][4];
  float out[HEAD / 8][4];
  float most[2], sum[2];
  int row, column, lane, query;

  DEVICE void begin(const AttendArguments &a, const Work &work, int head, int query_) {
    lane = THREAD & 31;
    row = lane >> 2;
    column = (lane & 3) * 2;
    query = query_;
    const Element *p[2];
    for (int half = 0; half < 2; half++) {
      int number = query + row + 8 * half;
      number = number < work.length ? number : work.length - 1;
      p[half] = static_cast<const Element *>(a.heads) + (long long)(work.start + number) * a.stride + head * a.size + column;
    }
    UNROLL
    for (int k = 0; k < HEAD / 16; k++)
      for (int part = 0; part < 4; part++) {
        const int at = k * 16 + (part >> 1) * 8;
        q[k][part] = at < a.size ? *reinterpret_cast<const unsigned *>(p[part & 1] + at) : 0u;
      }
    UNROLL
    for (int n = 0; n < HEAD / 8; n++)
      for (int i = 0; i < 4; i++) out[n][i] = 0.0f;
    most[0] = most[1] = -INFINITY;
    sum[0] = sum[1] = 0.0f;
  }

  // Adds `count` sixteens of keys, SIXTEENS at most, of which the first is key `key` of the row and lies at place `at` of
  // shared memory. The parts have a number of keys that the compiler knows, so that nothing in them branches.
  DEVICE void add(const AttendArguments &a, const Work &work, int head, unsigned keys, unsigned values, int at, int key, int count) {
    if (SIXTEENS >= 2 && count >= 2) add_some<SIXTEENS>(a, work, head, keys, values, at, key);
    else add_some<1>(a, work, head, keys, values, at, key);
  }

  template <int COUNT> DEVICE void add_some(const AttendArguments &a, const Work &work, int head, unsigned keys, unsigned values, int at, int key) {
    float s[2 * COUNT][4];
    const unsigned from_keys = keys + (at + (lane & 7) + (lane >> 4) * 8) * TOKEN_BYTES + ((lane >> 3) & 1) * 16;
    UNROLL
    for (int n = 0; n < 2 * COUNT; n++)
      UNROLL
      for (int i = 0; i < 4; i++) s[n][i] = 0.0f;
    UNROLL
    for (int k = 0; k < HEAD / 16; k++)
      UNROLL
      for (int j = 0; j < COUNT; j++) {
        unsigned b[4];
        load_rows(b, from_keys + j * 16 * TOKEN_BYTES + k * 32);
        multiply(s[2 * j], q[k], b[0], b[1]);
        multiply(s[2 * j + 1], q[k], b[2], b[3]);
      }
    if constexpr (HAS_EXTRAS) {
      for (int n = 0; n < 2 * COUNT; n++)
        for (int i = 0; i < 4; i++)
          s[n][i] = whole_score(a, s[n][i], head, query + row + (i >> 1) * 8, key + n * 8 + column + (i & 1), work.seen);
    } else {
      hide<COUNT>(a, work, key, s);
    }
    const float scale = HAS_EXTRAS ? 1.0f : a.scale * 1.442695041f;
    float kept[2], base[2];
    UNROLL
    for (int half = 0; half < 2; half++) {
      float highest = most[half];
      UNROLL
      for (int n = 0; n < 2 * COUNT; n++) highest = fmaxf(highest, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
      highest = fmaxf(highest, lane_xor(highest, 1));
      highest = fmaxf(highest, lane_xor(highest, 2));
      base[half] = highest == -INFINITY ? 0.0f : highest * scale;
      kept[half] = power_of_two(fmaf(most[half], scale, -base[half]));
      most[half] = highest;
      sum[half] *= kept[half];
    }
    UNROLL
    for (int n = 0; n < HEAD / 8; n++)
      UNROLL
      for (int i = 0; i < 4; i++) out[n][i] *= kept[i >> 1];
    UNROLL
    for (int n = 0; n < 2 * COUNT; n++)
      UNROLL
      for (int i = 0; i < 4; i++) {
        s[n][i] = power_of_two(fmaf(s[n][i], scale, -base[i >> 1]));
        sum[i >> 1] += s[n][i];
      }
    const unsigned from_values = values + (at + (lane & 15)) * TOKEN_BYTES + (lane >> 4) * 16;
    UNROLL
    for (int j = 0; j < COUNT; j++) {
      const unsigned p[4] = {pair_of(s[2 * j][0], s[2 * j][1]), pair_of(s[2 * j][2], s[2 * j][3]),
                             pair_of(s[2 * j + 1][0], s[2 * j + 1][1]), pair_of(s[2 * j + 1][2], s[2 * j + 1][3])};
      UNROLL
      for (int n = 0; n < HEAD / 16; n++) {
        unsigned b[4];
        load_columns(b, from_values + j * 16 * TOKEN_BYTES + n * 32);
        multiply(out[2 * n], p, b[0], b[1]);
        multiply(out[2 * n + 1], p, b[2], b[3]);
      }
    }
  }

  // Scores of keys that a query does not see become -infinity. Of most keys all are seen.
  template <int COUNT> DEVICE void hide(const AttendArguments &a, const Work &work, int key, float (&s)[2 * COUNT][4]) {
    if (key + COUNT * 16 > work.seen || key + COUNT * 16 - 1 - query > a.after) {
      int end[2];
      for (int half = 0; half < 2; half++) end[half] = end_of_keys(a, query + row + 8 * half, work.seen) - key - column;
      UNROLL
      for (int n = 0; n < 2 * COUNT; n++)
        UNROLL
        for (int i = 0; i < 4; i++) s[n][i] = n * 8 + (i & 1) < end[i >> 1] ? s[n][i] : -INFINITY;
    }
    if (query + 15 - key > a.before) {
      int first[2];
      for (int half = 0; half < 2; half++) first[half] = first_key(a, query + row + 8 * half) - key - column;
      UNROLL
      for (int n = 0; n < 2 * COUNT; n++)
        UNROLL
        for (int i = 0; i < 4; i++) s[n][i] = n * 8 + (i & 1) >= first[i >> 1] ? s[n][i] : -INFINITY;
    }
  }

  DEVICE void end(const AttendArguments &a, const Work &work, int head) {
    UNROLL
    for (int half = 0; half < 2; half++) {
      float all = sum[half];
      all += lane_xor(all, 1);
      all += lane_xor(all, 2);
      const int number = query + row + 8 * half;
      // A query that sees keys has a sum of 0 only where all its scores are -infinity: it becomes NaN.
      const bool sees = first_key(a, number) < end_of_keys(a, number, work.seen);
      const float share = sees ? reciprocal(all) : 0.0f;
      Element *to = static_cast<Element *>(a.out) + (long long)(work.start + number) * a.out_stride + head * a.size + column;
      UNROLL
      for (int n = 0; n < HEAD / 8; n++)
        if (number < work.length && n * 8 < a.size)
          *reinterpret_cast<unsigned *>(to + n * 8) = pair_of(out[n][2 * half] * share, out[n][2 * half + 1] * share);
    }
  }
};

// Starts the copy of `count` keys and values of a key head from key `key` on to shared memory; those that nobody sees, and
// channels that only fill up the width, become zeros.
DEVICE void copy_keys(const AttendArguments &a, const Work &work, int key_head, int key, int count, unsigned keys, unsigned values) {
  constexpr int PIECES = HEAD / 8;
  const Element *heads = static_cast<const Element *>(a.heads) + key_head * a.size;
  for (int i = THREAD; i < count * PIECES; i += THREADS) {
    const int token = i / PIECES, piece = i % PIECES;
    const bool is_there = key + token < work.seen && piece * 8 < a.size;
    const Element *from = heads + (long long)(work.start + (is_there ? key + token : 0)) * a.stride + (is_there ? piece * 8 : 0);
    const unsigned to = token * TOKEN_BYTES + piece * 16;
    copy16(keys + to, from + a.key_at, is_there);
    copy16(values + to, from + a.value_at, is_there);
  }
}

// A row and `together` heads of keys: each warp takes every so manieth task, which is 16 queries of a head.
constexpr int SHORT_THREADS = 128;
template <bool HAS_EXTRAS> DEVICE void attend_resident(const AttendArguments &a) {
  SHARED(memory);
  const Work work = a.work[BLOCK_X];
  const int whole = (work.seen + 15) / 16 * 16, first = BLOCK_Y * a.together;
  const unsigned keys = shared_address(memory), values = keys + a.together * whole * TOKEN_BYTES;
  for (int i = 0; i < a.together; i++)
    copy_keys(a, work, first + i, 0, whole, keys + i * whole * TOKEN_BYTES, values + i * whole * TOKEN_BYTES);
  copies_end();
  const int tiles = (work.length + 15) / 16, tasks = tiles * a.together * a.group, step = THREADS >> 5;
  // The queries of the first task are read beside the copies.
  WarpQueries<HAS_EXTRAS> queries;
  int task = THREAD >> 5, own = task / tiles, query = (task - own * tiles) * 16;
  if (task < tasks) queries.begin(a, work, first * a.group + own, query);
  copies_wait<0>();
  block_wait();
  while (task < tasks) {
    const int head = first * a.group + own;
    const unsigned offset = own / a.group * whole * TOKEN_BYTES;
    const int last = query + 15 < work.length ? query + 15 : work.length - 1;
    const int end = (end_of_keys(a, last, work.seen) + 15) / 16;
    for (int from = first_key(a, query) / (16 * SIXTEENS) * SIXTEENS; from < end; from += SIXTEENS)
      queries.add(a, work, head, keys + offset, values + offset, from * 16, from * 16, end - from < SIXTEENS ? end - from : SIXTEENS);
    queries.end(a, work, head);
    task += step;
    own = task / tiles;
    query = (task - own * tiles) * 16;
    if (task < tasks) queries.begin(a, work, first * a.group + own, query);
  }
}
KERNEL(SHORT_THREADS, attend_short, AttendArguments) { attend_resident<false>(a); }
#if EXTRAS
KERNEL(SHORT_THREADS, attend_short_extras, AttendArguments) { attend_resident<true>(a); }
#endif

// 64 queries of a head, 16 a warp: tiles of keys pass through two places of shared memory.
constexpr int TILE = HEAD <= 128 ? 64 : 32;
template <bool HAS_EXTRAS> DEVICE void attend_passing(const AttendArguments &a) {
  SHARED(memory);
  constexpr int PLACE = TILE * TOKEN_BYTES;
  const Work work = a.work[BLOCK_X];
  const int head = BLOCK_Y, key_head = head / a.group, query = work.query + (THREAD >> 5) * 16;
  const unsigned keys = shared_address(memory), values = keys + 2 * PLACE;
  WarpQueries<HAS_EXTRAS> queries;
  queries.begin(a, work, head, query < work.length ? query : work.length - 1);
  queries.query = query;
  int last = work.query + 63;
  last = last < work.length ? last : work.length - 1;
  const int first = first_key(a, work.query) / TILE * TILE, end = end_of_keys(a, last, work.seen);
  copy_keys(a, work, key_head, first, TILE, keys, values);
  copies_end();
  int place = 0;
  for (int tile = first; tile < end; tile += TILE, place ^= 1) {
    if (tile + TILE < end) copy_keys(a, work, key_head, tile + TILE, TILE, keys + (place ^ 1) * PLACE, values + (place ^ 1) * PLACE);
    copies_end();
    copies_wait<1>();
    block_wait();
    if (query < work.length)
      for (int at = 0; at < TILE; at += 16 * SIXTEENS) {
        // A step that this warp's queries do not see changes nothing but the sign of a zero: it is left out.
        const int from = tile + at, own_last = query + 15 < work.length ? query + 15 : work.length - 1;
        if (from >= end_of_keys(a, own_last, work.seen) || from + 16 * SIXTEENS <= first_key(a, query)) continue;
        int count = (end - from + 15) / 16;
        count = count < SIXTEENS ? count : SIXTEENS;
        const int rest = (TILE - at) / 16;
        queries.add(a, work, head, keys + place * PLACE, values + place * PLACE, at, from, count < rest ? count : rest);
      }
    block_wait();
  }
  copies_wait<0>();
  if (query < work.length) queries.end(a, work, head);
}
KERNEL(128, attend_long, AttendArguments) { attend_passing<false>(a); }
#if EXTRAS
KERNEL(128, attend_long_extras, AttendArguments) { attend_passing<true>(a); }
#endif
#endif
