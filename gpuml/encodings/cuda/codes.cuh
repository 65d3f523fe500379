// Packed codes: macros BITS (2, 4 or 8), ALIGN (16, 8, 4: addresses of all rows are multiples of
// it; 1: of nothing) and MISSING (0: the largest code is a value; 1: it means "missing" and counts
// as 0; 2: there are products with the 0/1 matrix of missing values as well).

constexpr int CODES = 8 / BITS;  // in a byte
constexpr unsigned LARGEST = (1u << BITS) - 1;
constexpr unsigned EVERY_BYTE = 0x01010101u;
constexpr unsigned FIRST_CODES = EVERY_BYTE * LARGEST;             // the first code of each byte
constexpr unsigned LOWEST_BITS = 0xffffffffu / LARGEST;            // the lowest bit of each code

struct Rows {
    const u8* data;
    i64 n_rows, stride, row_bytes;

    __device__ __forceinline__ const u8* row(i64 i) const { return data + i * stride; }
};

// 1 in place of each code that means "missing", 0 in place of the others.
__device__ __forceinline__ unsigned missing_codes(unsigned word) {
    unsigned all = word & (word >> 1);
    if (BITS >= 4) all &= all >> 2;
    if (BITS == 8) all &= all >> 4;
    return all & LOWEST_BITS;
}

// The codes, with 0 for those that mean "missing".
__device__ __forceinline__ unsigned present_codes(unsigned word) {
    return MISSING ? word & ~(missing_codes(word) * LARGEST) : word;
}
