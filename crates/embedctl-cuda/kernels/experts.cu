// Mixtures of experts: each token's choice, the tokens of each expert together, and the sum of their results.

// Softmax of a token's scores, and the greatest of them; the first of equals. A warp a token.
KERNEL(128, route, RouteArguments) {
  const int token = BLOCK_X * 4 + (THREAD >> 5), lane = THREAD & 31;
  if (token >= a.tokens) return;
  const float *scores = a.scores + (long long)token * a.count;
  float most = -INFINITY, sum = 0.0f;
  for (int at = lane; at < a.count; at += 32) most = fmaxf(most, scores[at]);
  most = warp_most(most);
  for (int at = lane; at < a.count; at += 32) sum += power_of_two((scores[at] - most) * 1.442695041f);
  sum = warp_sum(sum);
  float *shares = a.shares + (long long)token * a.chosen;
  int *experts = a.experts + (long long)token * a.chosen;
  float last = INFINITY, all = 0.0f;
  int last_expert = -1;
  for (int place = 0; place < a.chosen; place++) {
    // The greatest score behind the last one, in the order of scores and then of experts.
    float best = -INFINITY;
    int found = a.count;
    for (int at = lane; at < a.count; at += 32) {
      const float score = scores[at];
      const bool is_left = score < last || (score == last && at > last_expert);
      if (is_left && (found == a.count || score > best)) { best = score; found = at; }
    }
    for (int mask = 16; mask; mask >>= 1) {
      const float other = lane_xor(best, mask);
      const int expert = (int)lane_xor((float)found, mask);
      if (expert < a.count && (found == a.count || other > best || (other == best && expert < found))) { best = other; found = expert; }
    }
    last = best;
    last_expert = found;
    const float share = power_of_two((best - most) * 1.442695041f) / sum;
    all += share;
    if (lane == 0) { shares[place] = share; experts[place] = found < a.count ? found : a.count - 1; }
  }
  warp_wait();
  if (a.is_normalized)
    for (int place = lane; place < a.chosen; place += 32) shares[place] /= all;
}

// The entries of an expert in the tokens' order, behind those of the experts before it. One block; a thread an expert.
KERNEL(1024, place, PlaceArguments) {
  SHARED(memory);
  int *counts = reinterpret_cast<int *>(memory);
  for (int expert = THREAD; expert < a.count; expert += THREADS) {
    int count = 0;
    for (int entry = 0; entry < a.entries; entry++) count += a.experts[entry] == expert;
    counts[expert] = count;
    a.counts[expert] = count;
  }
  block_wait();
  for (int expert = THREAD; expert < a.count; expert += THREADS) {
    int next = 0;
    for (int before = 0; before < expert; before++) next += counts[before];
    for (int entry = 0; entry < a.entries; entry++)
      if (a.experts[entry] == expert) {
        a.sources[next] = entry / a.chosen;
        a.targets[entry] = next++;
      }
  }
}

KERNEL(128, gather, GatherArguments) {
  const int entry = BLOCK_X * 4 + (THREAD >> 5), lane = THREAD & 31;
  if (entry >= a.entries) return;
  const void *from = row_of(a.input, false, a.sources[entry], a.width);
  void *to = row_of(a.out, false, entry, a.width);
  for (int at = lane * 8; at < a.width; at += 256) {
    float v[8];
    read_row(from, false, at, a.width, v);
    write_row(to, false, at, a.width, v);
  }
}

// The sum of a token's experts, in their order, with `base`.
KERNEL(128, combine, CombineArguments) {
  const int token = BLOCK_X * 4 + (THREAD >> 5), lane = THREAD & 31;
  if (token >= a.tokens) return;
  const float *shares = a.shares + (long long)token * a.chosen;
  const int *targets = a.targets + (long long)token * a.chosen;
  for (int at = lane * 8; at < a.width; at += 256) {
    float sum[8] = {0, 0, 0, 0, 0, 0, 0, 0}, v[8];
    int last = -1;
    for (int place = 0; place < a.chosen; place++) {
      // The next in the order of experts, which is that of their results.
      int best = -1;
      for (int i = 0; i < a.chosen; i++)
        if (targets[i] > last && (best < 0 || targets[i] < targets[best])) best = i;
      last = targets[best];
      read_row(row_of(a.results, a.is_wide, last, a.width), a.is_wide, at, a.width, v);
      for (int i = 0; i < 8; i++) sum[i] = fmaf(shares[best], v[i], sum[i]);
    }
    if (a.bias) {
      read_row(a.bias, true, at, a.width, v);
      for (int i = 0; i < 8; i++) sum[i] += v[i];
    }
    if (a.base) {
      read_row(row_of(a.base, a.is_wide, token, a.width), a.is_wide, at, a.width, v);
      for (int i = 0; i < 8; i++) sum[i] += v[i];
    }
    write_row(row_of(a.out, a.is_wide, token, a.width), a.is_wide, at, a.width, sum);
  }
}
