//! Primes for RSA keys, in half of the time that the library takes, and for DSA keys, which no library makes.
//!
//! Each prime has a seed of its own, so that several are looked for at once and the same seeds still give the same keys.

use num_bigint::BigUint;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::montgomery::{Digits, MontgomeryField, to_number};

/// Odd primes below this are tried as divisors first. More would cost more than the tests they save.
const SIEVE: u32 = 1 << 15;

/// The number of odd numbers tried from a random one on before another one is drawn.
const WINDOW: usize = 4096;

/// Rounds of Miller and Rabin that are enough for random candidates of 1024 bits and more.
const ROUNDS: usize = 5;

/// More, as small numbers deceive more often.
const SMALL_ROUNDS: usize = 32;

fn small_primes() -> Vec<u32> {
    let mut composite = vec![false; SIEVE as usize];
    let mut primes = Vec::new();
    for number in (3..SIEVE).step_by(2) {
        if composite[number as usize] {
            continue;
        }
        primes.push(number);
        for multiple in (number.saturating_mul(number)..SIEVE).step_by(2 * number as usize) {
            composite[multiple as usize] = true;
        }
    }
    primes
}

/// The seed of a search, as secret as the key it is for.
#[derive(Clone, Copy)]
pub struct PrimeSeed(pub [u8; 32]);

/// The numbers that the holders of a DSA key may share.
pub struct DsaParameters {
    /// The modulus, a prime of 2048 bits.
    pub p: BigUint,
    /// A prime of 256 bits that divides `p - 1`.
    pub q: BigUint,
    /// A number whose powers modulo `p` repeat after `q`.
    pub g: BigUint,
}

/// Remainders of a number by each of the divisors.
fn remainders_by<const N: usize>(number: &Digits<N>, divisors: &[u32]) -> Vec<u32> {
    let by = |divisor: u64| {
        number.iter().rev().fold(0, |rest, digit| {
            let high = (rest << 32 | digit >> 32) % divisor;
            (high << 32 | digit & 0xffff_ffff) % divisor
        })
    };
    let mut all = Vec::with_capacity(divisors.len());
    // Two divisors of 15 bits together are one of 30: half the divisions.
    for pair in divisors.chunks(2) {
        let rest = by(pair.iter().map(|divisor| u64::from(*divisor)).product());
        all.extend(pair.iter().map(|divisor| (rest % u64::from(*divisor)) as u32));
    }
    all
}

/// Adds `2·step` to a number; none if it grows out of its digits.
fn advanced_by<const N: usize>(number: &Digits<N>, step: usize) -> Option<Digits<N>> {
    let mut result = *number;
    let mut carry = 2 * step as u64;
    for digit in &mut result {
        let (sum, overflows) = digit.overflowing_add(carry);
        *digit = sum;
        carry = u64::from(overflows);
    }
    (carry == 0).then_some(result)
}

fn random_digits<const N: usize>(random: &mut StdRng) -> Digits<N> {
    std::array::from_fn(|_| random.next_u64())
}

/// The first of some candidates that is prime. Candidates are odd and their highest bit is set.
fn first_prime<const N: usize>(candidates: &[Digits<N>], random: &mut StdRng) -> Option<Digits<N>> {
    candidates.iter().find(|candidate| is_prime(candidate, random)).copied()
}

fn is_prime<const N: usize>(candidate: &Digits<N>, random: &mut StdRng) -> bool {
    let Some(field) = MontgomeryField::new(*candidate) else { return false };
    let mut less_one = *candidate;
    less_one[0] -= 1;
    // Fermat's test: hardly any number passes that is not prime.
    field.power_of_two(&less_one) == *field.one() && passes_rounds(&field, &less_one, random)
}

/// Returns true if a number passes tests that only a prime can expect to pass.
fn passes_rounds<const N: usize>(
    field: &MontgomeryField<N>,
    less_one: &Digits<N>,
    random: &mut StdRng,
) -> bool {
    let rounds = if N < 16 { SMALL_ROUNDS } else { ROUNDS };
    (0..rounds).all(|_| passes_miller_rabin(field, less_one, &random_digits(random)))
}

/// One round of Miller and Rabin with any base.
fn passes_miller_rabin<const N: usize>(
    field: &MontgomeryField<N>,
    less_one: &Digits<N>,
    base: &Digits<N>,
) -> bool {
    let (one, minus_one) = (*field.one(), field.minus_one());
    let (odd, twos) = without_twos(less_one);
    let mut power = field.power(&field.represent(base), &odd);
    if power == one || power == minus_one {
        return true;
    }
    (1..twos).any(|_| {
        power = field.multiply(&power, &power);
        power == minus_one
    })
}

/// A number that is not zero divided by two as often as that leaves no rest, and how often that is.
fn without_twos<const N: usize>(number: &Digits<N>) -> (Digits<N>, u32) {
    let empty = number.iter().take_while(|digit| **digit == 0).count();
    let bits = number.get(empty).map_or(0, |digit| digit.trailing_zeros());
    let digit = |at: usize| number.get(at).copied().unwrap_or_default();
    let shifted = std::array::from_fn(|at| {
        let (low, high) = (digit(at + empty) >> bits, digit(at + empty + 1));
        if bits == 0 { low } else { low | high << (64 - bits) }
    });
    (shifted, empty as u32 * 64 + bits)
}

/// A random prime of `N` digits whose two highest bits are set and that fits the exponent 65537.
fn find_prime<const N: usize>(seed: PrimeSeed) -> BigUint {
    let random = &mut StdRng::from_seed(seed.0);
    let small = small_primes();
    loop {
        let mut start: Digits<N> = random_digits(random);
        start[0] |= 1;
        start[N - 1] |= 0b11 << 62;
        // Strike out what a small prime divides, then try what is left in turn.
        let mut struck = vec![false; WINDOW];
        for (divisor, rest) in small.iter().zip(remainders_by(&start, &small)) {
            // The first odd number at or after the start it divides: start + 2·first.
            let missing = if rest == 0 { 0 } else { divisor - rest };
            let first = if missing % 2 == 0 { missing / 2 } else { missing.midpoint(*divisor) };
            struck.iter_mut().skip(first as usize).step_by(*divisor as usize).for_each(|it| *it = true);
        }
        let open = struck.iter().enumerate().filter(|(_, struck)| !**struck);
        let open = open.filter_map(|(step, _)| advanced_by(&start, step));
        let fitting: Vec<_> = open.filter(|it| remainders_by(it, &[65_537])[0] != 1).collect();
        if let Some(found) = first_prime(&fitting, random) {
            return to_number(&found);
        }
    }
}

/// Two different primes of half of `bits` each, looked for at the same time.
pub fn prime_pair(bits: u64, seeds: [PrimeSeed; 2]) -> (BigUint, BigUint) {
    let find = if bits == 4096 { find_prime::<32> } else { find_prime::<16> };
    let [first, second] = seeds;
    std::thread::scope(|scope| {
        let other = std::thread::Builder::new().spawn_scoped(scope, move || find(second));
        let p = find(first);
        // Without a thread, one after the other.
        let q = other.ok().and_then(|other| other.join().ok());
        (p, q.unwrap_or_else(|| find(second)))
    })
}

/// New parameters of DSA keys.
pub fn dsa_parameters(seed: PrimeSeed) -> DsaParameters {
    const L: usize = 32;
    let random = &mut StdRng::from_seed(seed.0);
    let mut below = [0; 32];
    random.fill_bytes(&mut below);
    let q = find_prime::<4>(PrimeSeed(below));
    let one = BigUint::from(1_u8);
    // Each candidate is divided anew: fewer divisors than a sieve can afford.
    let small = &small_primes()[..512];
    let double = &q * 2_u8;
    loop {
        let mut start: Digits<L> = random_digits(random);
        start[L - 1] |= 1 << 63;
        let start = to_number(&start);
        // The next number that leaves one when divided by 2q.
        let mut p = &start - (&start % &double) + &one;
        for _ in 0..4 * 64 * L {
            let mut digits = [0; L];
            let found = p.to_u64_digits();
            if found.len() == L {
                digits.copy_from_slice(&found);
                let open = digits[L - 1] >> 63 == 1 && !remainders_by(&digits, small).contains(&0);
                if open && first_prime(&[digits], random).is_some() {
                    let exponent = (&p - &one) / &q;
                    let bases = (2_u8..).map(|base| BigUint::from(base).modpow(&exponent, &p));
                    if let Some(g) = bases.into_iter().find(|g| *g > one) {
                        return DsaParameters { p, q, g };
                    }
                }
            }
            p += &double;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_pass_and_others_do_not() {
        let random = &mut StdRng::from_seed([7; 32]);
        // 2^256 - 189 is prime, 2^256 - 187 is not; the last one of 64 bits passes Fermat's test for every base.
        for (digits, prime) in [
            ([u64::MAX - 188, u64::MAX, u64::MAX, u64::MAX], true),
            ([u64::MAX - 186, u64::MAX, u64::MAX, u64::MAX], false),
        ] {
            assert_eq!(is_prime(&digits, random), prime, "{digits:?}");
        }
        for (digit, prime) in [(u64::MAX - 58, true), (u64::MAX - 56, false), (9237750053364305929, false)] {
            assert_eq!(is_prime(&[digit], random), prime, "{digit}");
        }
    }

    #[test]
    fn twos_are_taken_out_across_digits() {
        for (number, odd, twos) in
            [([12, 0, 0], [3, 0, 0], 2), ([0, 1, 5], [1, 5, 0], 64), ([0, 2, 1], [1 << 63 | 1, 0, 0], 65)]
        {
            assert_eq!(without_twos(&number), (odd, twos), "{number:?}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_primes_again() {
        let seeds = [PrimeSeed([1; 32]), PrimeSeed([2; 32])];
        let (p, q) = prime_pair(2048, seeds);
        assert_eq!((p.clone(), q.clone()), prime_pair(2048, seeds));
        assert_eq!((p.bits(), q.bits(), (&p * &q).bits()), (1024, 1024, 2048));
    }
}
