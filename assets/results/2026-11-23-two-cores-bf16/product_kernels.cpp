// Products of R rows and a bfloat16 weight in C++, for the comparison in product-candidates.md; not part of the engine.
// g++ -O3 -march=native -fopenmp -shared -fPIC product_kernels.cpp -o product_kernels.so
#include <immintrin.h>
#include <cstdint>
#include <cstring>

// x: R rows of `length` bfloat16; w: `outputs` rows; out: R rows of `outputs` float32. `length` is a multiple of 32.
template <int R, int O>
static void widened(const float* x, const uint16_t* w, int64_t length, float* out, int64_t outputs) {
    // Weights are widened to float32; x is split already, even columns before odd ones in each block of 32.
    __m512 sums[R][O];
    for (int r = 0; r < R; r++)
        for (int o = 0; o < O; o++) sums[r][o] = _mm512_setzero_ps();
    for (int64_t i = 0; i < length; i += 32) {
        __m512 even[O], odd[O];
        for (int o = 0; o < O; o++) {
            __m512i words = _mm512_loadu_si512(w + o * length + i);
            even[o] = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
            odd[o] = _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(0xffff0000)));
            _mm_prefetch((const char*)(w + (o + 8) * length + i), _MM_HINT_T1);
        }
        for (int r = 0; r < R; r++) {
            __m512 one = _mm512_loadu_ps(x + r * length + i), other = _mm512_loadu_ps(x + r * length + i + 16);
            for (int o = 0; o < O; o++) {
                sums[r][o] = _mm512_fmadd_ps(one, even[o], sums[r][o]);
                sums[r][o] = _mm512_fmadd_ps(other, odd[o], sums[r][o]);
            }
        }
    }
    for (int r = 0; r < R; r++)
        for (int o = 0; o < O; o++) out[r * outputs + o] = _mm512_reduce_add_ps(sums[r][o]);
}

template <int R, int O>
static void dotted(const uint16_t* x, const uint16_t* w, int64_t length, float* out, int64_t outputs) {
    // vdpbf16ps: two products of bfloat16 and two additions a lane.
    __m512 sums[R][O];
    for (int r = 0; r < R; r++)
        for (int o = 0; o < O; o++) sums[r][o] = _mm512_setzero_ps();
    for (int64_t i = 0; i < length; i += 32) {
        __m512bh weights[O];
        for (int o = 0; o < O; o++) {
            weights[o] = (__m512bh)_mm512_loadu_si512(w + o * length + i);
            _mm_prefetch((const char*)(w + (o + 8) * length + i), _MM_HINT_T1);
        }
        for (int r = 0; r < R; r++) {
            __m512bh row = (__m512bh)_mm512_loadu_si512(x + r * length + i);
            for (int o = 0; o < O; o++) sums[r][o] = _mm512_dpbf16_ps(sums[r][o], row, weights[o]);
        }
    }
    for (int r = 0; r < R; r++)
        for (int o = 0; o < O; o++) out[r * outputs + o] = _mm512_reduce_add_ps(sums[r][o]);
}

static void split(const uint16_t* x, int64_t count, float* out) {
    for (int64_t i = 0; i < count; i += 32) {
        __m512i words = _mm512_loadu_si512(x + i);
        _mm512_storeu_ps(out + i, _mm512_castsi512_ps(_mm512_slli_epi32(words, 16)));
        _mm512_storeu_ps(out + i + 16, _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(0xffff0000))));
    }
}

template <int R, int O>
static void product(const uint16_t* x, const uint16_t* w, int64_t length, int64_t outputs, float* out, bool widen) {
    float* wide = new float[R * length];
    if (widen) split(x, R * length, wide);
#pragma omp parallel for schedule(static)
    for (int64_t o = 0; o < outputs / O; o++) {
        const uint16_t* rows = w + o * O * length;
        if (widen) widened<R, O>(wide, rows, length, out + o * O, outputs);
        else dotted<R, O>(x, rows, length, out + o * O, outputs);
    }
    delete[] wide;
}

extern "C" void multiply(
    const uint16_t* x, const uint16_t* w, int64_t rows, int64_t length, int64_t outputs, float* out, int64_t widen) {
    // Eight rows at once at most, as many as have accumulators in registers.
    while (rows > 0) {
        int64_t now = rows > 8 ? 8 : rows;
        switch (now) {
            case 1: product<1, 8>(x, w, length, outputs, out, widen); break;
            case 2: product<2, 4>(x, w, length, outputs, out, widen); break;
            case 3: product<3, 4>(x, w, length, outputs, out, widen); break;
            case 4: product<4, 4>(x, w, length, outputs, out, widen); break;
            case 5: product<5, 4>(x, w, length, outputs, out, widen); break;
            case 6: product<6, 2>(x, w, length, outputs, out, widen); break;
            case 7: product<7, 2>(x, w, length, outputs, out, widen); break;
            default: product<8, 2>(x, w, length, outputs, out, widen);
        }
        x += now * length, out += now * outputs, rows -= now;
    }
}
