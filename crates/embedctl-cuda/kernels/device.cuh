// The words in which kernels are written, for NVIDIA's compiler. emulator/lanes.h has the same words for a processor.
//
// ELEMENT is the type of weights and activations: 0 single precision, 1 half precision, 2 bfloat16. HEAD is the width of
// an attention head, rounded up to 16 channels. EXTRAS: whether scores are bent or have a bias. NORMS: a bit for each norm that
// is wanted. No header of CUDA's is included: NVRTC comes without any.
#define KERNEL(threads, name, Arguments) extern "C" __global__ void __launch_bounds__(threads) name(const Arguments a)
#define DEVICE __device__ __forceinline__
#define UNROLL _Pragma("unroll")
#define BLOCK_X ((int)blockIdx.x)
#define BLOCK_Y ((int)blockIdx.y)
#define THREAD ((int)threadIdx.x)
#define THREADS ((int)blockDim.x)
#define SHARED(name) char *name = block_memory
#define INFINITY __int_as_float(0x7f800000)

extern __shared__ __align__(128) char block_memory[];

DEVICE unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
DEVICE void block_wait() { __syncthreads(); }
DEVICE void warp_wait() { __syncwarp(); }
DEVICE float lane_xor(float value, int mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }
DEVICE float lane_get(float value, int lane) { return __shfl_sync(0xffffffffu, value, lane); }

// Copies 16 bytes to shared memory, or zeros, behind the thread's back.
DEVICE void copy16(unsigned to, const void *from, bool is_there) {
  int bytes = is_there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
DEVICE void copies_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> DEVICE void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }

// Four matrices of 8 rows of 16 bytes; each lane names a row. Turned: each lane gets two values of a column.
DEVICE void load_rows(unsigned (&r)[4], unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}
DEVICE void load_columns(unsigned (&r)[4], unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}

DEVICE float power_of_two(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEVICE float reciprocal(float x) { return __fdividef(1.0f, x); }
DEVICE float as_float(unsigned bits) { return __uint_as_float(bits); }

#if ELEMENT == 1
DEVICE float widened(unsigned short bits) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits)); return f; }
DEVICE unsigned pair_of(float low, float high) { unsigned u; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(u) : "f"(high), "f"(low)); return u; }
DEVICE unsigned short narrowed(float f) { unsigned short b; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(b) : "f"(f)); return b; }
DEVICE void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#elif ELEMENT == 2
DEVICE float widened(unsigned short bits) { return as_float((unsigned)bits << 16); }
DEVICE unsigned pair_of(float low, float high) { unsigned u; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(u) : "f"(high), "f"(low)); return u; }
DEVICE unsigned short narrowed(float f) { return (unsigned short)pair_of(f, 0.0f); }
DEVICE void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif
