// The words of kernels/device.cuh for a processor: each thread of a block is a fiber, and the fibers of a warp meet at
// shuffles, matrix loads and products as PTX describes them. Fibers run in a random order, shared memory starts as NaN and
// ends at a page that nobody may touch, so that a kernel that counts on anything else fails.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <type_traits>
#include <unistd.h>
#include <vector>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#define DEVICE inline
#define UNROLL
#define BLOCK_X (lanes::block_x)
#define BLOCK_Y (lanes::block_y)
#define THREAD (lanes::current)
#define THREADS (lanes::threads)
#define SHARED(name) char *name = lanes::shared

struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };

namespace lanes {
static int block_x, block_y, current, threads;
static char *shared;
static int living, waiting;
static long generation;
struct Warp { int waiting = 0; long generation = 0; void *arguments[32]; };
static std::vector<Warp> warps;
static std::vector<char> ended;
static void (*body)(const void *);
static const void *arguments;
static uint32_t chance = 1;

[[noreturn]] inline void fail(const char *what) { fprintf(stderr, "emulated kernel: %s\n", what); abort(); }

constexpr size_t STACK = 64 << 10;
#if defined(__x86_64__)
extern "C" void lanes_switch(void **from, void *to);
asm(R"(
.text
.p2align 4
.hidden lanes_switch
.type lanes_switch, @function
lanes_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
static std::vector<void *> places;
static void *home;
static void to_home() { lanes_switch(&places[current], home); }
static void to_fiber(int index) { current = index; lanes_switch(&home, places[index]); }
static void entry() { body(arguments); ended[current] = 1; living--; to_home(); fail("an ended fiber runs"); }
static void prepare(int index, char *stack) {
  void **top = reinterpret_cast<void **>((reinterpret_cast<uintptr_t>(stack) + STACK) & ~uintptr_t(15));
  *--top = nullptr;
  *--top = reinterpret_cast<void *>(&entry);
  top -= 6;
  places[index] = top;
}
static void make_room(int count) { places.resize(count); }
#else
static std::vector<ucontext_t> places;
static ucontext_t home;
static void to_home() { swapcontext(&places[current], &home); }
static void to_fiber(int index) { current = index; swapcontext(&home, &places[index]); }
static void entry() { body(arguments); ended[current] = 1; living--; to_home(); }
static void prepare(int index, char *stack) {
  getcontext(&places[index]);
  places[index].uc_stack.ss_sp = stack;
  places[index].uc_stack.ss_size = STACK;
  places[index].uc_link = nullptr;
  makecontext(&places[index], entry, 0);
}
static void make_room(int count) { places.resize(count); }
#endif

// The 32 fibers of a warp meet; the last one does the work of all.
template <class Argument, class Work> static void meet(Argument *argument, Work work) {
  const int own = current;
  Warp &warp = warps[own >> 5];
  warp.arguments[own & 31] = argument;
  const long before = warp.generation;
  if (++warp.waiting == 32) {
    work(reinterpret_cast<Argument **>(warp.arguments));
    warp.waiting = 0;
    warp.generation++;
  } else {
    while (warp.generation == before) { to_home(); }
  }
}

static uint32_t next_chance() { chance ^= chance << 13; chance ^= chance >> 17; chance ^= chance << 5; return chance; }

static void run_block() {
  living = threads;
  waiting = 0;
  ended.assign(threads, 0);
  warps.assign((threads + 31) / 32, Warp());
  static std::vector<char> stacks;
  stacks.resize(STACK * threads + 64);
  for (int i = 0; i < threads; i++) prepare(i, stacks.data() + STACK * i);
  long rounds = 0;
  while (living) {
    const int before = living, start = next_chance() % threads, step = next_chance() & 1 ? 1 : threads - 1;
    for (int count = 0, i = start; count < threads; count++, i = (i + step) % threads)
      if (!ended[i]) to_fiber(i);
    if (living == before && ++rounds > 1000000) fail("its threads wait for each other");
  }
}

struct Grid { int x, y, threads; size_t shared_bytes; };

static void run_grid(void (*body_)(const void *), const void *arguments_, const Grid &grid) {
  body = body_;
  arguments = arguments_;
  threads = grid.threads;
  make_room(threads);
  const size_t page = sysconf(_SC_PAGESIZE), bytes = (grid.shared_bytes + 127) / 128 * 128;
  const size_t whole = (bytes + page - 1) / page * page;
  char *memory = static_cast<char *>(mmap(nullptr, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (memory == MAP_FAILED) fail("no memory");
  mprotect(memory + whole, page, PROT_NONE);
  shared = memory + whole - bytes;
  for (int y = 0; y < grid.y; y++)
    for (int x = 0; x < grid.x; x++) {
      block_x = x;
      block_y = y;
      memset(shared, 0xff, bytes);
      run_block();
    }
  munmap(memory, whole + page);
}
} // namespace lanes

#define EXPORT extern "C" __attribute__((visibility("default")))
#define KERNEL(threads_, name, Arguments)                                                                       \
  static void name##_thread(const Arguments &a);                                                                \
  EXPORT const int name##_bytes = sizeof(Arguments), name##_threads = threads_;                                   \
  EXPORT void name(const void *arguments, const lanes::Grid *grid) {                                                \
    if (grid->threads > threads_) lanes::fail(#name " has more threads than it was compiled for");              \
    lanes::run_grid([](const void *a) { name##_thread(*static_cast<const Arguments *>(a)); }, arguments, *grid); \
  }                                                                                                             \
  static void name##_thread(const Arguments &a)

DEVICE unsigned shared_address(const void *p) { return (unsigned)(static_cast<const char *>(p) - lanes::shared); }
DEVICE void block_wait() {
  using namespace lanes;
  const long before = generation;
  if (++waiting == living) { waiting = 0; generation++; }
  else while (generation == before) to_home();
}
DEVICE void warp_wait() { int none = 0; lanes::meet(&none, [](int **) {}); }
DEVICE float lane_xor(float value, int mask) {
  struct Argument { float given, got; int mask; } own{value, 0, mask};
  lanes::meet(&own, [](Argument **all) { for (int i = 0; i < 32; i++) all[i]->got = all[i ^ all[i]->mask]->given; });
  return own.got;
}
DEVICE float lane_get(float value, int lane) {
  struct Argument { float given, got; int lane; } own{value, 0, lane};
  lanes::meet(&own, [](Argument **all) { for (int i = 0; i < 32; i++) all[i]->got = all[all[i]->lane & 31]->given; });
  return own.got;
}

DEVICE void copy16(unsigned to, const void *from, bool is_there) {
  if (to % 16 || reinterpret_cast<uintptr_t>(from) % 16) lanes::fail("a copy of 16 bytes is not aligned");
  // A copy is there when it is waited for; before, there is nothing to count on.
  if (is_there) memcpy(lanes::shared + to, from, 16);
  else memset(lanes::shared + to, 0, 16);
}
DEVICE void copies_end() {}
template <int PENDING> DEVICE void copies_wait() {}

struct MatrixRows { unsigned *r, from; };
DEVICE void load_rows(unsigned (&r)[4], unsigned from) {
  if (from % 16) lanes::fail("a matrix's row is not aligned");
  MatrixRows own{r, from};
  lanes::meet(&own, [](MatrixRows **all) {
    for (int m = 0; m < 4; m++)
      for (int lane = 0; lane < 32; lane++)
        memcpy(&all[lane]->r[m], lanes::shared + all[m * 8 + lane / 4]->from + lane % 4 * 4, 4);
  });
}
DEVICE void load_columns(unsigned (&r)[4], unsigned from) {
  if (from % 16) lanes::fail("a matrix's row is not aligned");
  MatrixRows own{r, from};
  lanes::meet(&own, [](MatrixRows **all) {
    for (int m = 0; m < 4; m++)
      for (int lane = 0; lane < 32; lane++) {
        uint16_t two[2];
        for (int i = 0; i < 2; i++) memcpy(&two[i], lanes::shared + all[m * 8 + lane % 4 * 2 + i]->from + lane / 4 * 2, 2);
        memcpy(&all[lane]->r[m], two, 4);
      }
  });
}

DEVICE float power_of_two(float x) { return exp2f(x); }
DEVICE float reciprocal(float x) { return 1.0f / x; }
DEVICE float as_float(unsigned bits) { float f; memcpy(&f, &bits, 4); return f; }
DEVICE unsigned as_bits(float f) { unsigned bits; memcpy(&bits, &f, 4); return bits; }

#if ELEMENT == 1
DEVICE float widened(unsigned short bits) {
  const unsigned sign = (unsigned)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 31) return as_float(sign | 0x7f800000u | fraction << 13);
  if (exponent) return as_float(sign | (exponent + 112) << 23 | fraction << 13);
  const float small = (float)fraction * 5.9604644775390625e-8f;
  return sign ? -small : small;
}
DEVICE unsigned short narrowed(float f) {
  const unsigned bits = as_bits(f), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000u) return sign | 0x7fff;
  if (rest >= 0x477ff000u) return sign | 0x7c00;
  if (rest < 0x38800000u) return sign | (unsigned short)lrintf(as_float(rest) * 16777216.0f);
  return sign | (unsigned short)((rest - 0x38000000u + 0xfff + (rest >> 13 & 1)) >> 13);
}
#elif ELEMENT == 2
DEVICE float widened(unsigned short bits) { return as_float((unsigned)bits << 16); }
DEVICE unsigned short narrowed(float f) {
  const unsigned bits = as_bits(f);
  if ((bits & 0x7fffffff) > 0x7f800000u) return 0x7fff;
  return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
#endif
#if ELEMENT != 0
DEVICE unsigned pair_of(float low, float high) { return narrowed(low) | (unsigned)narrowed(high) << 16; }
struct ProductParts { float *c; const unsigned *a; unsigned b[2]; };
DEVICE void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  ProductParts own{c, a, {b0, b1}};
  lanes::meet(&own, [](ProductParts **all) {
    float left[16][16], right[16][8];
    for (int lane = 0; lane < 32; lane++) {
      const int row = lane / 4, column = lane % 4 * 2;
      for (int i = 0; i < 4; i++)
        for (int e = 0; e < 2; e++) left[row + i % 2 * 8][column + e + i / 2 * 8] = widened((unsigned short)(all[lane]->a[i] >> 16 * e));
      for (int i = 0; i < 2; i++)
        for (int e = 0; e < 2; e++) right[column + e + i * 8][row] = widened((unsigned short)(all[lane]->b[i] >> 16 * e));
    }
    for (int lane = 0; lane < 32; lane++)
      for (int i = 0; i < 4; i++) {
        float sum = all[lane]->c[i];
        for (int k = 0; k < 16; k++) sum += left[lane / 4 + i / 2 * 8][k] * right[k][lane % 4 * 2 + i % 2];
        all[lane]->c[i] = sum;
      }
  });
}
#endif
