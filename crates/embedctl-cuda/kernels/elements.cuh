// Elements in memory, eight or two at a time, and sums over a warp.

#if ELEMENT == 0
typedef float Element;
DEVICE float widened(float value) { return value; }
DEVICE float narrowed(float value) { return value; }
#else
typedef unsigned short Element;
#endif

// A value, or NaN in the place of infinity: an overflow that a maximum would hide, or the share of a score.
DEVICE float shown(float value) { return fmaf(value, 0.0f, value); }

DEVICE float warp_sum(float value) {
  for (int mask = 16; mask; mask >>= 1) value += lane_xor(value, mask);
  return value;
}
DEVICE float warp_most(float value) {
  for (int mask = 16; mask; mask >>= 1) value = fmaxf(value, lane_xor(value, mask));
  return value;
}

DEVICE void read_wide(const float *p, float (&v)[8]) {
  float4 a = reinterpret_cast<const float4 *>(p)[0], b = reinterpret_cast<const float4 *>(p)[1];
  v[0] = a.x; v[1] = a.y; v[2] = a.z; v[3] = a.w; v[4] = b.x; v[5] = b.y; v[6] = b.z; v[7] = b.w;
}
DEVICE void write_wide(float *p, const float (&v)[8]) {
  reinterpret_cast<float4 *>(p)[0] = float4{v[0], v[1], v[2], v[3]};
  reinterpret_cast<float4 *>(p)[1] = float4{v[4], v[5], v[6], v[7]};
}
#if ELEMENT == 0
DEVICE void read_elements(const float *p, float (&v)[8]) { read_wide(p, v); }
DEVICE void write_elements(float *p, const float (&v)[8]) { write_wide(p, v); }
DEVICE void read_two(const float *p, float (&v)[2]) { float2 a = *reinterpret_cast<const float2 *>(p); v[0] = a.x; v[1] = a.y; }
DEVICE void write_two(float *p, const float (&v)[2]) { *reinterpret_cast<float2 *>(p) = float2{v[0], v[1]}; }
#else
DEVICE void read_elements(const Element *p, float (&v)[8]) {
  uint4 u = *reinterpret_cast<const uint4 *>(p);
  unsigned words[4] = {u.x, u.y, u.z, u.w};
  UNROLL
  for (int i = 0; i < 4; i++) {
    v[2 * i] = widened((unsigned short)words[i]);
    v[2 * i + 1] = widened((unsigned short)(words[i] >> 16));
  }
}
DEVICE void write_elements(Element *p, const float (&v)[8]) {
  *reinterpret_cast<uint4 *>(p) = uint4{pair_of(v[0], v[1]), pair_of(v[2], v[3]), pair_of(v[4], v[5]), pair_of(v[6], v[7])};
}
DEVICE void read_two(const Element *p, float (&v)[2]) {
  unsigned u = *reinterpret_cast<const unsigned *>(p);
  v[0] = widened((unsigned short)u); v[1] = widened((unsigned short)(u >> 16));
}
DEVICE void write_two(Element *p, const float (&v)[2]) { *reinterpret_cast<unsigned *>(p) = pair_of(v[0], v[1]); }
#endif

// Eight values of a row of `width` from channel `at` on; those behind its end are 0. Rows of a multiple of eight are read
// in whole pieces.
DEVICE void read_row(const void *row, bool is_wide, int at, int width, float (&v)[8]) {
  if (width % 8 == 0) {
    if (is_wide) read_wide(static_cast<const float *>(row) + at, v);
    else read_elements(static_cast<const Element *>(row) + at, v);
    return;
  }
  for (int i = 0; i < 8; i++) {
    float value = 0.0f;
    if (at + i < width)
      value = is_wide ? static_cast<const float *>(row)[at + i] : widened(static_cast<const Element *>(row)[at + i]);
    v[i] = value;
  }
}
DEVICE void write_row(void *row, bool is_wide, int at, int width, const float (&v)[8]) {
  if (width % 8 == 0) {
    if (is_wide) write_wide(static_cast<float *>(row) + at, v);
    else write_elements(static_cast<Element *>(row) + at, v);
    return;
  }
  for (int i = 0; i < 8; i++)
    if (at + i < width) {
      if (is_wide) static_cast<float *>(row)[at + i] = v[i];
      else static_cast<Element *>(row)[at + i] = narrowed(v[i]);
    }
}
// The row `index` of a matrix of `stride` values a row.
DEVICE const void *row_of(const void *p, bool is_wide, int index, int stride) {
  return static_cast<const char *>(p) + (long long)index * stride * (int)(is_wide ? sizeof(float) : sizeof(Element));
}
DEVICE void *row_of(void *p, bool is_wide, int index, int stride) {
  return static_cast<char *>(p) + (long long)index * stride * (int)(is_wide ? sizeof(float) : sizeof(Element));
}
