//! Primes from the host's randomness: for DSA keys, and for RSA keys that a seed must reproduce.

use num_bigint::BigUint;

use crate::func::Ctx;

use super::super::random;

/// Odd primes below this are tried as divisors first.
const SIEVE: u32 = 4000;

fn small_primes() -> Vec<u32> {
    let mut composite = vec![false; SIEVE as usize];
    let mut primes = Vec::new();
    for number in 2..SIEVE {
        if composite[number as usize] {
            continue;
        }
        if number > 2 {
            primes.push(number);
        }
        for multiple in (number * number..SIEVE).step_by(number as usize) {
            composite[multiple as usize] = true;
        }
    }
    primes
}

/// A random number of exactly `bits` bits.
fn random_bits(ctx: &Ctx<'_>, bits: u64) -> BigUint {
    let bytes = random::bytes(ctx, usize::try_from(bits.div_ceil(8)).unwrap_or(0));
    let mut number = BigUint::from_bytes_be(&bytes) % (BigUint::from(1_u8) << bits);
    number.set_bit(bits - 1, true);
    number
}

/// Miller–Rabin with random bases; `rounds` as are enough for random candidates of cryptographic size.
fn is_probably_prime(ctx: &Ctx<'_>, candidate: &BigUint, rounds: usize) -> bool {
    let one = BigUint::from(1_u8);
    let less = candidate - &one;
    let twos = less.trailing_zeros().unwrap_or(0);
    let odd = &less >> twos;
    (0..rounds).all(|_| {
        let base = random_bits(ctx, candidate.bits() - 1);
        let mut power = base.modpow(&odd, candidate);
        if power == one || power == less {
            return true;
        }
        (1..twos).any(|_| {
            power = &power * &power % candidate;
            power == less
        })
    })
}

/// A random prime of exactly `bits` bits whose two highest bits are set.
pub(super) fn prime(ctx: &Ctx<'_>, bits: u64) -> BigUint {
    let small = small_primes();
    let two = BigUint::from(2_u8);
    loop {
        let mut candidate = random_bits(ctx, bits);
        candidate.set_bit(bits - 2, true);
        candidate.set_bit(0, true);
        let mut rests: Vec<u32> = small.iter().map(|prime| rest(&candidate, *prime)).collect();
        // Walk up from the candidate, keeping the remainders, before drawing another one.
        for _ in 0..4096 {
            if rests.iter().all(|&rest| rest != 0) && is_probably_prime(ctx, &candidate, 8) {
                if candidate.bits() == bits {
                    return candidate;
                }
                break;
            }
            candidate += &two;
            for (rest, prime) in rests.iter_mut().zip(&small) {
                *rest = (*rest + 2) % prime;
            }
        }
    }
}

fn rest(number: &BigUint, divisor: u32) -> u32 {
    (number % divisor).iter_u32_digits().next().unwrap_or(0)
}

/// DSA parameters p (2048 bits), q (256 bits) and g.
pub(super) fn dsa_parameters(ctx: &Ctx<'_>) -> (BigUint, BigUint, BigUint) {
    const L: u64 = 2048;
    const N: u64 = 256;
    let one = BigUint::from(1_u8);
    let small = small_primes();
    let q = prime(ctx, N);
    let double = &q * 2_u8;
    loop {
        let start = random_bits(ctx, L);
        // The next number that leaves one when divided by 2q.
        let mut p = &start - (&start % &double) + &one;
        for _ in 0..4 * L {
            let candidate = p.bits() == L && small.iter().all(|&prime| rest(&p, prime) != 0);
            if candidate && is_probably_prime(ctx, &p, 8) {
                let exponent = (&p - &one) / &q;
                for base in 2_u8.. {
                    let g = BigUint::from(base).modpow(&exponent, &p);
                    if g > one {
                        return (p, q, g);
                    }
                }
            }
            p += &double;
        }
    }
}
