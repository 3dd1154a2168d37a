/* Philox4x32-10, a counter-based generator (Salmon et al., SC 2011), and what is drawn from it.
 *
 * The number at (seed, stream, block) is a function of just these, so tables come out the same in any order, on
 * any number of threads, platform and NumPy. Normal numbers are made with + - * / and sqrt alone, for the same
 * reason: no libm has a say in them.
 */
#ifndef SHORE_PHILOX_H
#define SHORE_PHILOX_H

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    uint32_t word[4];
} shore_random_block;

static inline shore_random_block shore_philox(uint64_t seed, uint64_t stream, uint64_t block) {
    uint32_t c0 = (uint32_t)stream, c1 = (uint32_t)(stream >> 32);
    uint32_t c2 = (uint32_t)block, c3 = (uint32_t)(block >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        const uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (shore_random_block){{c0, c1, c2, c3}};
}

/* Uniform in (0, 1), never 0 or 1: the middles of 2^52 equal intervals. */
static inline double shore_uniform(uint32_t high, uint32_t low) {
    const uint64_t bits = ((uint64_t)high << 32 | low) >> 12;
    return ((double)bits + 0.5) * 0x1p-52;
}

/* Natural logarithm of x in (0, 1]; about 1e-15 relative, by the series of atanh. */
static inline double shore_log(double x) {
    uint64_t bits;
    memcpy(&bits, &x, 8);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & 0x000FFFFFFFFFFFFFull) | 0x3FF0000000000000ull;
    double y;
    memcpy(&y, &bits, 8);
    if (y > 1.4142135623730951) {
        y *= 0.5;
        exponent++;
    }
    const double z = (y - 1) / (y + 1), w = z * z;
    double sum = 0;
    for (int k = 21; k >= 1; k -= 2) sum = sum * w + 1.0 / k;
    return 2 * z * sum + exponent * 0.6931471805599453;
}

/* The normal quantile, by the rational approximations of Wichura's algorithm AS 241 (1988); 1e-16 relative. */
static inline double shore_normal(double p) {
    const double q = p - 0.5;
    if (fabs(q) <= 0.425) {
        const double r = 0.180625 - q * q;
        return q *
               (((((((2.5090809287301226727e3 * r + 3.3430575583588128105e4) * r + 6.7265770927008700853e4) * r +
                    4.5921953931549871457e4) * r + 1.3731693765509461125e4) * r + 1.9715909503065514427e3) * r +
                 1.3314166789178437745e2) * r + 3.3871328727963666080e0) /
               (((((((5.2264952788528545610e3 * r + 2.8729085735721942674e4) * r + 3.9307895800092710610e4) * r +
                    2.1213794301586595867e4) * r + 5.3941960214247511077e3) * r + 6.8718700749205790830e2) * r +
                 4.2313330701600911252e1) * r + 1.0);
    }
    double r = sqrt(-shore_log(q < 0 ? p : 1 - p)), value;
    if (r <= 5) {
        r -= 1.6;
        value = (((((((7.74545014278341407640e-4 * r + 2.27238449892691845833e-2) * r + 2.41780725177450611770e-1) * r +
                     1.27045825245236838258e0) * r + 3.64784832476320460504e0) * r + 5.76949722146069140550e0) * r +
                  4.63033784615654529590e0) * r + 1.42343711074968357734e0) /
                (((((((1.05075007164441684324e-9 * r + 5.47593808499534494600e-4) * r + 1.51986665636164571966e-2) * r +
                     1.48103976427480074590e-1) * r + 6.89767334985100004550e-1) * r + 1.67638483018380384940e0) * r +
                  2.05319162663775882187e0) * r + 1.0);
    } else {
        r -= 5;
        value = (((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r + 1.24266094738807843860e-3) * r +
                     2.65321895265761230930e-2) * r + 2.96560571828504891230e-1) * r + 1.78482653991729133580e0) * r +
                  5.46378491116411436990e0) * r + 6.65790464350110377720e0) /
                (((((((2.04426310338993978564e-15 * r + 1.42151175831644588870e-7) * r + 1.84631831751005468180e-5) * r +
                     7.86869131145613259100e-4) * r + 1.48753612908506148525e-2) * r + 1.36929880922735805310e-1) * r +
                  5.99832206555887937690e-1) * r + 1.0);
    }
    return q < 0 ? -value : value;
}

#endif
