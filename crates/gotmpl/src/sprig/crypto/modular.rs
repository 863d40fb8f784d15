//! Arithmetic modulo an odd number of a fixed size, fast enough to look for primes with.
//!
//! Numbers are digits of 64 bits, lowest first, in Montgomery's form: `x` stands for `x·R mod n`, where
//! `R` is one more digit than fits.

/// A number of `N` digits.
pub(super) type Digits<const N: usize> = [u64; N];

/// An odd modulus with its highest bit set.
pub(super) struct Modulus<const N: usize> {
    digits: Digits<N>,
    /// What the lowest digit must be multiplied with to give -1.
    inverse: u64,
}

/// `sum + a·b + carry` as (low, high); it cannot overflow.
fn multiply_add(sum: u64, a: u64, b: u64, carry: u64) -> (u64, u64) {
    let wide = u128::from(sum) + u128::from(a) * u128::from(b) + u128::from(carry);
    (wide as u64, (wide >> 64) as u64)
}

impl<const N: usize> Modulus<N> {
    pub(super) fn new(digits: Digits<N>) -> Self {
        // Newton's iteration doubles the right bits each time.
        let mut inverse = 1_u64;
        for _ in 0..6 {
            inverse = inverse.wrapping_mul(2_u64.wrapping_sub(digits[0].wrapping_mul(inverse)));
        }
        Self { digits, inverse: inverse.wrapping_neg() }
    }

    /// One in Montgomery's form: `R - n`, as the highest bit of `n` is set.
    fn one(&self) -> Digits<N> {
        let mut one = [0; N];
        self.subtract(&mut one);
        one
    }

    /// What the lowest digit must be multiplied with to give -1.
    #[cfg(all(feature = "crypto", target_arch = "x86_64"))]
    pub(super) fn inverse(&self) -> u64 {
        self.inverse
    }

    /// `R·2^more` below the modulus: one in Montgomery's form with a larger `R`.
    #[cfg(all(feature = "crypto", target_arch = "x86_64"))]
    pub(super) fn power_of_two(&self, more: usize) -> Digits<N> {
        let mut power = self.one();
        self.settle(&mut power, 0);
        (0..more).for_each(|_| self.double(&mut power));
        power
    }

    /// Takes the modulus away, wrapping; tells whether it was larger.
    fn subtract(&self, number: &mut Digits<N>) -> bool {
        let mut borrow = false;
        for (digit, less) in number.iter_mut().zip(&self.digits) {
            let (difference, first) = digit.overflowing_sub(*less);
            let (difference, second) = difference.overflowing_sub(u64::from(borrow));
            *digit = difference;
            borrow = first | second;
        }
        borrow
    }

    /// Brings a number below twice the modulus below it; `high` is its digit beyond the last.
    fn settle(&self, number: &mut Digits<N>, high: u64) {
        let mut less = *number;
        if !self.subtract(&mut less) || high != 0 {
            *number = less;
        }
    }

    fn double(&self, number: &mut Digits<N>) {
        let mut high = 0;
        for digit in number.iter_mut() {
            let next = *digit >> 63;
            *digit = *digit << 1 | high;
            high = next;
        }
        self.settle(number, high);
    }

    fn multiply(&self, a: &Digits<N>, b: &Digits<N>) -> Digits<N> {
        let mut wide = [[0; N]; 2];
        let wide = wide.as_flattened_mut();
        for (at, digit) in b.iter().enumerate() {
            let mut carry = 0;
            for (sum, other) in wide[at..].iter_mut().zip(a) {
                (*sum, carry) = multiply_add(*sum, *other, *digit, carry);
            }
            wide[at + N] = carry;
        }
        self.reduce(wide)
    }

    fn square(&self, number: &Digits<N>) -> Digits<N> {
        let mut wide = [[0; N]; 2];
        let wide = wide.as_flattened_mut();
        // Every product of two different digits occurs twice.
        for (at, digit) in number.iter().enumerate() {
            let mut carry = 0;
            for (sum, other) in wide[2 * at + 1..].iter_mut().zip(&number[at + 1..]) {
                (*sum, carry) = multiply_add(*sum, *other, *digit, carry);
            }
            wide[at + N] = carry;
        }
        let (mut high, mut carry) = (0, 0);
        for (pair, digit) in wide.as_chunks_mut::<2>().0.iter_mut().zip(number) {
            let [low, upper] = *pair;
            let (doubled, next) = (low << 1 | high, upper << 1 | low >> 63);
            high = upper >> 63;
            let (sum, over) = multiply_add(doubled, *digit, *digit, carry);
            let (upper, overflows) = next.overflowing_add(over);
            *pair = [sum, upper];
            carry = u64::from(overflows);
        }
        self.reduce(wide)
    }

    /// `wide / R`, for a number of `2N` digits.
    fn reduce(&self, wide: &mut [u64]) -> Digits<N> {
        let mut high = 0;
        for at in 0..N {
            let factor = wide[at].wrapping_mul(self.inverse);
            let mut carry = 0;
            for (sum, digit) in wide[at..].iter_mut().zip(&self.digits) {
                (*sum, carry) = multiply_add(*sum, factor, *digit, carry);
            }
            let (sum, first) = wide[at + N].overflowing_add(carry);
            let (sum, second) = sum.overflowing_add(high);
            wide[at + N] = sum;
            high = u64::from(first) + u64::from(second);
        }
        let mut result = [0; N];
        result.copy_from_slice(&wide[N..]);
        self.settle(&mut result, high);
        result
    }

    fn bit(number: &Digits<N>, at: usize) -> bool {
        number[at / 64] >> (at % 64) & 1 == 1
    }

    /// Whether `2^(n-1)` is one: no prime fails this, and hardly any other number passes.
    pub(super) fn passes_fermat(&self) -> bool {
        let one = self.one();
        let mut power = one;
        // The exponent is the modulus with its lowest bit cleared.
        for at in (0..64 * N).rev() {
            power = self.square(&power);
            if at > 0 && Self::bit(&self.digits, at) {
                self.double(&mut power);
            }
        }
        power == one
    }

    /// One round of Miller and Rabin with any base, itself in Montgomery's form.
    pub(super) fn passes_miller_rabin(&self, base: &Digits<N>) -> bool {
        let mut base = *base;
        self.settle(&mut base, 0);
        let one = self.one();
        let minus_one = self.negative(&one);
        let mut exponent = self.digits;
        exponent[0] &= !1;
        let twos = (0..64 * N).find(|at| Self::bit(&exponent, *at)).unwrap_or(0);
        let mut power = one;
        for at in (twos..64 * N).rev() {
            power = self.square(&power);
            if Self::bit(&exponent, at) {
                power = self.multiply(&power, &base);
            }
        }
        if power == one || power == minus_one {
            return true;
        }
        (1..twos).any(|_| {
            power = self.square(&power);
            power == minus_one
        })
    }

    /// `n - number`, for a number that is not zero.
    fn negative(&self, number: &Digits<N>) -> Digits<N> {
        let mut result = self.digits;
        let mut borrow = false;
        for (digit, less) in result.iter_mut().zip(number) {
            let (difference, first) = digit.overflowing_sub(*less);
            let (difference, second) = difference.overflowing_sub(u64::from(borrow));
            *digit = difference;
            borrow = first | second;
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use num_bigint::BigUint;

    use super::*;

    fn number<const N: usize>(digits: &Digits<N>) -> BigUint {
        let bytes: Vec<u8> = digits.iter().flat_map(|digit| digit.to_le_bytes()).collect();
        BigUint::from_bytes_le(&bytes)
    }

    #[test]
    fn products_agree_with_plain_arithmetic() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..200 {
            let mut n: Digits<4> = std::array::from_fn(|_| next());
            n[0] |= 1;
            n[3] |= 1 << 63;
            let modulus = Modulus::new(n);
            let (mut a, mut b): (Digits<4>, Digits<4>) =
                (std::array::from_fn(|_| next()), std::array::from_fn(|_| next()));
            modulus.settle(&mut a, 0);
            modulus.settle(&mut b, 0);
            let big = number(&n);
            let product = number(&modulus.multiply(&a, &b)) << 256;
            assert_eq!(product % &big, number(&a) * number(&b) % &big);
            assert_eq!(modulus.square(&a), modulus.multiply(&a, &a));
            assert_eq!(number(&modulus.one()), (BigUint::from(1_u8) << 256) % &big);
        }
    }

    #[test]
    fn primes_pass_and_others_do_not() {
        // 2^256 - 189 is prime, 2^256 - 187 is not.
        for (less, prime) in [(189, true), (187, false)] {
            let modulus = Modulus::<4>::new([u64::MAX - less + 1, u64::MAX, u64::MAX, u64::MAX]);
            assert_eq!(modulus.passes_fermat(), prime, "{less}");
            assert_eq!(modulus.passes_miller_rabin(&[3, 1, 4, 1]), prime, "{less}");
        }
    }
}
