//! Powers of numbers modulo an odd number of fixed size, by Montgomery's multiplication.

use num_bigint::BigUint;

/// A number of `N` digits of 64 bits, lowest first.
pub(crate) type Digits<const N: usize> = [u64; N];

/// An odd modulus whose highest bit is set. Numbers `x` are represented by `x·2^(64·N)` modulo it.
pub(crate) struct MontgomeryField<const N: usize> {
    modulus: Digits<N>,
    /// The number that makes the lowest digit of a multiple of the modulus cancel another.
    cancelling: u64,
    /// One.
    one: Digits<N>,
}

impl<const N: usize> MontgomeryField<N> {
    /// A field for a modulus; none unless it is odd and its highest bit is set.
    pub(crate) fn new(modulus: Digits<N>) -> Option<Self> {
        if modulus[0] & 1 == 0 || modulus[N - 1] >> 63 == 0 {
            return None;
        }
        // Newton's iteration doubles the right bits of the inverse: 3, 6, 12, 24, 48, 96.
        let mut inverse = modulus[0];
        for _ in 0..5 {
            inverse = inverse.wrapping_mul(2_u64.wrapping_sub(modulus[0].wrapping_mul(inverse)));
        }
        // 2^(64·N) less the modulus, which is more than half of it.
        let one = difference(&[0; N], &modulus).0;
        Some(Self { modulus, cancelling: inverse.wrapping_neg(), one })
    }

    pub(crate) fn one(&self) -> &Digits<N> {
        &self.one
    }

    /// The number before one, modulo the modulus.
    pub(crate) fn minus_one(&self) -> Digits<N> {
        difference(&self.modulus, &self.one).0
    }

    /// The product of two numbers.
    pub(crate) fn multiply(&self, a: &Digits<N>, b: &Digits<N>) -> Digits<N> {
        let mut sum = [0; N];
        let mut top = 0;
        for factor in a {
            let mut carry = 0;
            for (digit, other) in sum.iter_mut().zip(b) {
                (*digit, carry) = multiply_add(*factor, *other, *digit, carry);
            }
            let (high, overflow) = carry_into(top, carry);
            // A multiple of the modulus that makes the lowest digit zero, which is then shifted out.
            let multiple = sum[0].wrapping_mul(self.cancelling);
            let (_, mut carry) = multiply_add(multiple, self.modulus[0], sum[0], 0);
            for at in 1..N {
                (sum[at - 1], carry) = multiply_add(multiple, self.modulus[at], sum[at], carry);
            }
            let (last, more) = carry_into(high, carry);
            sum[N - 1] = last;
            top = overflow + more;
        }
        self.reduced(&sum, top)
    }

    /// Two to the power of a number.
    pub(crate) fn power_of_two(&self, exponent: &Digits<N>) -> Digits<N> {
        let mut power = self.one;
        for bit in bits_of(exponent) {
            power = self.multiply(&power, &power);
            if bit {
                power = self.double(&power);
            }
        }
        power
    }

    /// A number to the power of another.
    pub(crate) fn power(&self, base: &Digits<N>, exponent: &Digits<N>) -> Digits<N> {
        let mut power = self.one;
        for bit in bits_of(exponent) {
            power = self.multiply(&power, &power);
            if bit {
                power = self.multiply(&power, base);
            }
        }
        power
    }

    /// The representation of a number.
    pub(crate) fn represent(&self, number: &Digits<N>) -> Digits<N> {
        let shifted = (to_number(number) << (64 * N)) % to_number(&self.modulus);
        let mut digits = [0; N];
        for (digit, found) in digits.iter_mut().zip(shifted.to_u64_digits()) {
            *digit = found;
        }
        digits
    }

    fn double(&self, number: &Digits<N>) -> Digits<N> {
        let mut doubled = [0; N];
        let mut low = 0;
        for (digit, source) in doubled.iter_mut().zip(number) {
            *digit = source << 1 | low;
            low = source >> 63;
        }
        self.reduced(&doubled, low)
    }

    /// A number of one more digit that is less than twice the modulus, less the modulus if it is not below it.
    fn reduced(&self, number: &Digits<N>, top: u64) -> Digits<N> {
        let (less, borrow) = difference(number, &self.modulus);
        if top > 0 || !borrow { less } else { *number }
    }
}

/// The low and the high digit of `a·b + c + d`, which always fits.
#[inline(always)]
fn multiply_add(a: u64, b: u64, c: u64, d: u64) -> (u64, u64) {
    let sum = u128::from(a) * u128::from(b) + u128::from(c) + u128::from(d);
    (sum as u64, (sum >> 64) as u64)
}

#[inline(always)]
fn carry_into(digit: u64, carry: u64) -> (u64, u64) {
    let (sum, overflows) = digit.overflowing_add(carry);
    (sum, u64::from(overflows))
}

/// `a - b` within the digits, and whether `b` is more.
fn difference<const N: usize>(a: &Digits<N>, b: &Digits<N>) -> (Digits<N>, bool) {
    let mut result = [0; N];
    let mut borrow = false;
    for ((digit, a), b) in result.iter_mut().zip(a).zip(b) {
        let (less, first) = a.overflowing_sub(*b);
        let (less, second) = less.overflowing_sub(u64::from(borrow));
        (*digit, borrow) = (less, first | second);
    }
    (result, borrow)
}

/// The bits of a number, highest first.
fn bits_of<const N: usize>(number: &Digits<N>) -> impl Iterator<Item = bool> {
    number.iter().rev().flat_map(|digit| (0..64).rev().map(move |bit| digit >> bit & 1 == 1))
}

pub(crate) fn to_number<const N: usize>(digits: &Digits<N>) -> BigUint {
    let bytes: Vec<u8> = digits.iter().flat_map(|digit| digit.to_le_bytes()).collect();
    BigUint::from_bytes_le(&bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn powers_are_those_of_the_library(modulus: [u64; 4], base: [u64; 4], exponent: [u64; 4]) {
            let mut modulus = modulus;
            modulus[0] |= 1;
            modulus[3] |= 1 << 63;
            let field = MontgomeryField::new(modulus).unwrap();
            let expected = |base: &BigUint| base.modpow(&to_number(&exponent), &to_number(&modulus));
            // Multiplied by one as it is written, a number leaves its representation.
            let plain = |number: &Digits<4>| to_number(&field.multiply(number, &[1, 0, 0, 0]));
            let base_number = to_number(&base);
            prop_assert_eq!(plain(&field.power(&field.represent(&base), &exponent)), expected(&base_number));
            prop_assert_eq!(plain(&field.power_of_two(&exponent)), expected(&BigUint::from(2_u8)));
            prop_assert_eq!(plain(&field.minus_one()) + 1_u8, to_number(&modulus));
        }
    }

    #[test]
    fn even_and_short_moduli_are_refused() {
        for modulus in [[2, 1 << 63], [1, 1]] {
            assert!(MontgomeryField::new(modulus).is_none());
        }
    }
}
