//! Tests of eight candidates for primes at once, on processors that multiply eight 52-bit digits in one step.
//!
//! Most of what making a key takes is raising two to the power of candidates that are not prime. Here
//! every vector holds the same digit of eight numbers, in Montgomery's form with `R = 2^(52·L)`. `R` is
//! at least 2^16 times the modulus, so that no result but the last must be brought below it.

use std::arch::x86_64::{
    __m512i, __mmask8, _mm512_add_epi64, _mm512_and_si512, _mm512_cmpeq_epi64_mask, _mm512_madd52hi_epu64,
    _mm512_madd52lo_epu64, _mm512_mask_add_epi64, _mm512_set_epi64, _mm512_set1_epi64, _mm512_setzero_si512,
    _mm512_srli_epi64, _mm512_test_epi64_mask,
};

use super::modular::{Digits, Modulus};

/// How many numbers go side by side.
pub(super) const LANES: usize = 8;

/// Bits of a digit.
const BITS: usize = 52;

const MASK: u64 = (1 << BITS) - 1;

type Number<const L: usize> = [__m512i; L];

/// Whether this processor can.
pub(super) fn available() -> bool {
    std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512ifma")
}

/// Which of the numbers pass Fermat's test with base two, a bit for each; none if this processor or this
/// size cannot be served.
pub(super) fn fermat<const N: usize>(numbers: &[Digits<N>; LANES]) -> Option<u8> {
    if !available() {
        return None;
    }
    #[expect(unsafe_code, reason = "functions for processors that are not everywhere")]
    // SAFETY: the processor has just been asked whether it has what these functions are compiled for.
    // They take and give plain values.
    match N {
        16 => Some(unsafe { fermat_lanes::<16, 20>(&resized(numbers)) }),
        32 => Some(unsafe { fermat_lanes::<32, 40>(&resized(numbers)) }),
        _ => None,
    }
}

/// Which rounds of Miller and Rabin the number passes, a bit for each base.
pub(super) fn miller_rabin<const N: usize>(number: &Digits<N>, bases: &[Digits<N>; LANES]) -> Option<u8> {
    if !available() {
        return None;
    }
    #[expect(unsafe_code, reason = "functions for processors that are not everywhere")]
    // SAFETY: as above.
    match N {
        16 => Some(unsafe { miller_rabin_lanes::<16, 20>(&digits(number), &resized(bases)) }),
        32 => Some(unsafe { miller_rabin_lanes::<32, 40>(&digits(number), &resized(bases)) }),
        _ => None,
    }
}

/// The same digits where their number is known to be `M`.
fn digits<const N: usize, const M: usize>(number: &Digits<N>) -> Digits<M> {
    std::array::from_fn(|at| number.get(at).copied().unwrap_or_default())
}

fn resized<const N: usize, const M: usize>(numbers: &[Digits<N>; LANES]) -> [Digits<M>; LANES] {
    std::array::from_fn(|at| digits(&numbers[at]))
}

/// The `at`th digit of 52 bits.
fn digit(number: &[u64], at: usize) -> u64 {
    let (word, shift) = (at * BITS / 64, at * BITS % 64);
    let low = number.get(word).map_or(0, |low| low >> shift);
    let high = if shift == 0 { 0 } else { number.get(word + 1).map_or(0, |high| high << (64 - shift)) };
    (low | high) & MASK
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn pack<const N: usize, const L: usize>(numbers: &[Digits<N>; LANES]) -> Number<L> {
    let mut packed = [_mm512_setzero_si512(); L];
    for (at, packed) in packed.iter_mut().enumerate() {
        let [a, b, c, d, e, f, g, h] = numbers.each_ref().map(|number| digit(number, at).cast_signed());
        *packed = _mm512_set_epi64(h, g, f, e, d, c, b, a);
    }
    packed
}

/// Eight odd moduli.
struct Moduli<const L: usize> {
    digits: Number<L>,
    /// What the lowest digits must be multiplied with to give -1.
    inverse: __m512i,
}

impl<const L: usize> Moduli<L> {
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn new<const N: usize>(numbers: &[Digits<N>; LANES]) -> Self {
        let inverse = numbers.each_ref().map(|number| [Modulus::new(*number).inverse() & MASK]);
        let [inverse] = pack::<1, 1>(&inverse);
        Self { digits: pack(numbers), inverse }
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    fn multiply(&self, a: &Number<L>, b: &Number<L>) -> Number<L> {
        let zero = _mm512_setzero_si512();
        let mut wide = [[zero; L]; 2];
        let wide = wide.as_flattened_mut();
        for (at, b) in b.iter().enumerate() {
            add_product(&mut wide[at..], a, *b);
        }
        self.reduce(wide)
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    fn square(&self, a: &Number<L>) -> Number<L> {
        let zero = _mm512_setzero_si512();
        let mut wide = [[zero; L]; 2];
        let wide = wide.as_flattened_mut();
        // Every product of two different digits occurs twice.
        for (at, digit) in a.iter().enumerate() {
            add_product(&mut wide[2 * at + 1..], &a[at + 1..], *digit);
        }
        for (pair, digit) in wide.as_chunks_mut::<2>().0.iter_mut().zip(a) {
            let [low, high] = *pair;
            *pair = [
                _mm512_madd52lo_epu64(_mm512_add_epi64(low, low), *digit, *digit),
                _mm512_madd52hi_epu64(_mm512_add_epi64(high, high), *digit, *digit),
            ];
        }
        self.reduce(wide)
    }

    /// `wide / R`: hardly more than the modulus, if `wide` was less than a few of its squares.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn reduce(&self, wide: &mut [__m512i]) -> Number<L> {
        let zero = _mm512_setzero_si512();
        for at in 0..L {
            let factor = _mm512_madd52lo_epu64(zero, wide[at], self.inverse);
            add_product(&mut wide[at..], &self.digits, factor);
            wide[at + 1] = _mm512_add_epi64(wide[at + 1], _mm512_srli_epi64::<{ BITS as u32 }>(wide[at]));
        }
        let mut result = [zero; L];
        result.copy_from_slice(&wide[L..]);
        settle(&mut result);
        result
    }

    /// Leaves Montgomery's form; the result is no more than the modulus.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn plain(&self, number: &Number<L>) -> Number<L> {
        let mut wide = [[_mm512_setzero_si512(); L]; 2];
        wide[0] = *number;
        self.reduce(wide.as_flattened_mut())
    }
}

/// Adds `a·b` to digits that have room for it. Sums of as many products as we have leave no 64 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn add_product(sum: &mut [__m512i], a: &[__m512i], b: __m512i) {
    let Some((last, _)) = a.split_last() else { return };
    let sum = &mut sum[..=a.len()];
    sum[0] = _mm512_madd52lo_epu64(sum[0], a[0], b);
    for ((sum, a), before) in sum[1..].iter_mut().zip(&a[1..]).zip(a) {
        *sum = _mm512_madd52hi_epu64(_mm512_madd52lo_epu64(*sum, *a, b), *before, b);
    }
    sum[a.len()] = _mm512_madd52hi_epu64(sum[a.len()], *last, b);
}

/// Carries what is beyond the 52 bits of each digit to the next.
#[target_feature(enable = "avx512f,avx512ifma")]
fn settle(number: &mut [__m512i]) {
    let mask = _mm512_set1_epi64(MASK.cast_signed());
    let mut carry = _mm512_setzero_si512();
    for digit in number {
        let sum = _mm512_add_epi64(*digit, carry);
        carry = _mm512_srli_epi64::<{ BITS as u32 }>(sum);
        *digit = _mm512_and_si512(sum, mask);
    }
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn equal<const L: usize>(a: &Number<L>, b: &Number<L>) -> __mmask8 {
    a.iter().zip(b).fold(0xff, |all, (a, b)| all & _mm512_cmpeq_epi64_mask(*a, *b))
}

/// One, not in Montgomery's form.
#[target_feature(enable = "avx512f,avx512ifma")]
fn one<const L: usize>() -> Number<L> {
    let mut one = [_mm512_setzero_si512(); L];
    one[0] = _mm512_set1_epi64(1);
    one
}

/// One in Montgomery's form with the `R` used here.
fn unit<const N: usize, const L: usize>(number: &Digits<N>) -> Digits<N> {
    Modulus::new(*number).power_of_two(L * BITS - N * 64)
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn fermat_lanes<const N: usize, const L: usize>(numbers: &[Digits<N>; LANES]) -> u8 {
    let moduli = Moduli::<L>::new(numbers);
    let mut power: Number<L> = pack(&numbers.each_ref().map(unit::<N, L>));
    // The exponent is the modulus with its lowest bit cleared.
    for at in (0..64 * N).rev() {
        power = moduli.square(&power);
        if at > 0 {
            let bit = _mm512_set1_epi64(1 << (at % BITS));
            let wanted = _mm512_test_epi64_mask(moduli.digits[at / BITS], bit);
            for digit in &mut power {
                *digit = _mm512_mask_add_epi64(*digit, wanted, *digit, *digit);
            }
            settle(&mut power);
        }
    }
    equal(&moduli.plain(&power), &one())
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn miller_rabin_lanes<const N: usize, const L: usize>(number: &Digits<N>, bases: &[Digits<N>; LANES]) -> u8 {
    let moduli = Moduli::<L>::new(&[*number; LANES]);
    let base: Number<L> = pack(bases);
    let mut exponent = *number;
    exponent[0] &= !1;
    let bit = |at: usize| exponent[at / 64] >> (at % 64) & 1 == 1;
    let twos = (0..64 * N).find(|at| bit(*at)).unwrap_or_default();
    let minus_one: Number<L> = pack(&[exponent; LANES]);
    let mut power: Number<L> = pack(&[unit::<N, L>(number); LANES]);
    for at in (twos..64 * N).rev() {
        power = moduli.square(&power);
        if bit(at) {
            power = moduli.multiply(&power, &base);
        }
    }
    let plain = moduli.plain(&power);
    let mut passed = equal(&plain, &one()) | equal(&plain, &minus_one);
    for _ in 1..twos {
        power = moduli.square(&power);
        passed |= equal(&moduli.plain(&power), &minus_one);
    }
    passed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Agrees with the numbers taken one by one, for `2^(64·N) - less` and its smaller neighbours.
    fn agrees<const N: usize>(less: u64) {
        let numbers: [Digits<N>; LANES] = std::array::from_fn(|at| {
            let mut digits = [u64::MAX; N];
            digits[0] = (less + 2 * at as u64 - 1).wrapping_neg() - 1;
            digits
        });
        let Some(passed) = fermat(&numbers) else { return };
        let one_by_one = numbers.each_ref().map(|number| Modulus::new(*number).passes_fermat());
        assert_eq!(std::array::from_fn(|at| passed >> at & 1 == 1), one_by_one);
        assert_eq!(passed, 1, "only the first is prime");

        let bases: [Digits<N>; LANES] = std::array::from_fn(|at| [at as u64 + 2; N]);
        assert_eq!(miller_rabin(&numbers[0], &bases), Some(0xff));
        assert_eq!(miller_rabin(&numbers[1], &bases), Some(0));
    }

    #[test]
    fn lanes_agree_with_single_numbers() {
        agrees::<16>(105);
        agrees::<32>(1_942_289);
    }

    #[test]
    fn other_sizes_are_left_to_others() {
        assert_eq!(fermat(&[[u64::MAX; 4]; LANES]), None);
    }
}
