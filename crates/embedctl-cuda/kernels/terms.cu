// The weights of a vocabulary's terms, pooled while the logits are made: never tokens by terms in memory at once.

// A term's weight over the tokens of a row: ln(1 + max(x, 0)) of the greatest logit, or the sum of it over the tokens; once
// or twice. A logit that is not finite makes it NaN. A thread has a term.
DEVICE float weight_of(float logit, bool is_twice) {
  const float once = log1pf(logit);
  return is_twice ? log1pf(once) : once;
}
KERNEL(128, pool_terms, TermsArguments) {
  const int row = BLOCK_Y, term = BLOCK_X * 128 + THREAD;
  if (term >= a.count) return;
  float top = 0.0f, odd = 0.0f;
  for (int token = row ? a.ends[row - 1] : 0; token < a.ends[row]; token++) {
    const float x = a.logits[(long long)token * a.stride + term];
    odd += x * 0.0f;
    if (a.sums) top += x > 0.0f ? weight_of(x, a.is_twice) : 0.0f;
    else top = x > top ? x : top;
  }
  a.out[(long long)row * a.out_stride + a.first + term] = (a.sums ? top : weight_of(top, a.is_twice)) + odd;
}
