// The arguments of each kernel, as one structure: src/launch.rs has the same. Pointers stand first, so that nothing is
// padded. `void` is of elements, or of single precision where the kernel's `is_wide` says so.

// A row's tokens, or some of its queries: the first token in the batch, how many the row has, how many of them are seen
// as keys, and the first query.
struct Work { int start, length, seen, query; };

struct EmbedArguments {
  const int *ids, *kinds, *places;
  const void *words, *positions;
  const float *types;
  void *out;
  float scale;
  int width, tokens, is_wide;
};

struct NormArguments {
  const void *input, *base;
  void *out;
  const float *weight, *bias;
  float epsilon;
  int input_stride, out_stride, width, tokens, is_rms;
  int input_is_wide, out_is_wide;
};

struct ConvertArguments {
  const void *input;
  void *out;
  int width, tokens, input_is_wide, out_is_wide;
};

struct TurnArguments {
  void *heads;
  const float *query_weight, *query_bias, *key_weight, *key_bias, *table;
  const int *places;
  float epsilon;
  int stride, size, queries, keys, pairs, tokens, is_rms, by_twos;
};

struct AttendArguments {
  const void *heads;
  void *out;
  const Work *work;
  const float *bias;
  const void *query_scores, *key_scores;
  const int *relative_rows;
  float scale, softcap;
  int stride, out_stride, key_at, value_at, size, group, together;
  int before, after, bias_reach, relative_reach, relative_count, query_heads;
};

struct ActivateArguments {
  void *values;
  int stride, width, tokens, activation, is_gated;
};

struct ConvolveArguments {
  const void *parts;
  void *out;
  const Work *work;
  const float *filters, *bias;
  int channels, length;
};

struct SharesArguments {
  void *values;
  int stride, width, groups, tokens;
};

struct RouteArguments {
  const float *scores;
  float *shares;
  int *experts;
  int count, chosen, tokens, is_normalized;
};

struct PlaceArguments {
  const int *experts;
  int *counts, *sources, *targets;
  int count, entries, chosen;
};

struct GatherArguments {
  const void *input;
  void *out;
  const int *sources;
  int width, entries;
};

struct CombineArguments {
  const void *results, *base;
  void *out;
  const float *shares, *bias;
  const int *targets;
  int width, chosen, tokens, is_wide;
};

struct PoolArguments {
  const void *states;
  const int *spans;
  float *out;
  const int *modes;
  int width, rows, mode_count, out_stride;
};

struct TermsArguments {
  const float *logits;
  const int *ends;
  float *out;
  int first, count, stride, out_stride, sums, is_twice;
};
