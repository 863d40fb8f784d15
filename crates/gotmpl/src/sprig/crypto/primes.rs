//! Primes for RSA and DSA keys.
//!
//! What is drawn from the host is a seed for each prime, so that several are looked for at once and a
//! seeded host still gives the same keys.

use num_bigint::BigUint;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::super::random;
use super::modular::{Digits, Modulus};
use crate::func::Ctx;

/// Odd primes below this are tried as divisors first. More would cost more than the tests they save.
const SIEVE: u32 = 1 << 15;

/// How many odd numbers from a random one on are looked at before another one is drawn.
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

/// The seed of a prime, drawn from the host.
#[derive(Clone, Copy)]
pub(super) struct Seed([u8; 32]);

impl Seed {
    pub(super) fn draw(ctx: &Ctx<'_>) -> Self {
        Self(random::array(ctx))
    }
}

/// Remainders of a number by each of the divisors.
fn remainders<const N: usize>(number: &Digits<N>, divisors: &[u32]) -> Vec<u32> {
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
fn advanced<const N: usize>(number: &Digits<N>, step: usize) -> Option<Digits<N>> {
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

/// The first of some candidates that is prime.
fn first_prime<const N: usize>(candidates: &[Digits<N>], random: &mut StdRng) -> Option<Digits<N>> {
    candidates.chunks(TOGETHER).find_map(|some| {
        let known = match some {
            // A few are faster one by one.
            [first, _, _, ..] => {
                fermat_together(&std::array::from_fn(|at| some.get(at).copied().unwrap_or(*first)))
            }
            _ => None,
        };
        let mut numbered = some.iter().enumerate();
        let passes = |at: usize, it: &Digits<N>| match known {
            Some(known) => known >> at & 1 == 1,
            None => Modulus::new(*it).passes_fermat(),
        };
        numbered.find(|(at, it)| passes(*at, it) && passes_rounds(it, random)).map(|(_, it)| *it)
    })
}

/// Whether a number that passes Fermat's test also passes those that no other number can expect to.
fn passes_rounds<const N: usize>(candidate: &Digits<N>, random: &mut StdRng) -> bool {
    if N < 16 {
        let modulus = Modulus::new(*candidate);
        return (0..SMALL_ROUNDS).all(|_| modulus.passes_miller_rabin(&random_digits(random)));
    }
    let bases: [Digits<N>; ROUNDS] = std::array::from_fn(|_| random_digits(random));
    match rounds_together(candidate, &std::array::from_fn(|at| bases[at % ROUNDS])) {
        Some(passed) => passed == u8::MAX,
        None => bases.iter().all(|base| Modulus::new(*candidate).passes_miller_rabin(base)),
    }
}

#[cfg(target_arch = "x86_64")]
use super::lanes::{LANES as TOGETHER, fermat as fermat_together, miller_rabin as rounds_together};

/// How many candidates are looked at together.
#[cfg(not(target_arch = "x86_64"))]
const TOGETHER: usize = 8;

#[cfg(not(target_arch = "x86_64"))]
fn fermat_together<const N: usize>(_: &[Digits<N>; TOGETHER]) -> Option<u8> {
    None
}

#[cfg(not(target_arch = "x86_64"))]
fn rounds_together<const N: usize>(_: &Digits<N>, _: &[Digits<N>; TOGETHER]) -> Option<u8> {
    None
}

fn to_number<const N: usize>(digits: &Digits<N>) -> BigUint {
    let bytes: Vec<u8> = digits.iter().flat_map(|digit| digit.to_le_bytes()).collect();
    BigUint::from_bytes_le(&bytes)
}

/// A random prime of `N` digits whose two highest bits are set and that fits the exponent 65537.
fn prime<const N: usize>(seed: Seed) -> BigUint {
    let random = &mut StdRng::from_seed(seed.0);
    let small = small_primes();
    loop {
        let mut start: Digits<N> = random_digits(random);
        start[0] |= 1;
        start[N - 1] |= 0b11 << 62;
        // Strike out what a small prime divides, then try what is left in turn.
        let mut struck = vec![false; WINDOW];
        for (divisor, rest) in small.iter().zip(remainders(&start, &small)) {
            // The first odd number at or after the start it divides: start + 2·first.
            let missing = if rest == 0 { 0 } else { divisor - rest };
            let first = if missing % 2 == 0 { missing / 2 } else { missing.midpoint(*divisor) };
            struck.iter_mut().skip(first as usize).step_by(*divisor as usize).for_each(|it| *it = true);
        }
        let open = struck.iter().enumerate().filter(|(_, struck)| !**struck);
        let open = open.filter_map(|(step, _)| advanced(&start, step));
        let fitting: Vec<_> = open.filter(|it| remainders(it, &[65_537])[0] != 1).collect();
        if let Some(found) = first_prime(&fitting, random) {
            return to_number(&found);
        }
    }
}

/// Two different primes of half of `bits` each, looked for at the same time.
pub(super) fn pair(bits: u64, seeds: [Seed; 2]) -> (BigUint, BigUint) {
    let find = if bits == 4096 { prime::<32> } else { prime::<16> };
    let [first, second] = seeds;
    std::thread::scope(|scope| {
        let other = std::thread::Builder::new().spawn_scoped(scope, move || find(second));
        let p = find(first);
        // Without a thread, one after the other.
        let q = other.ok().and_then(|other| other.join().ok());
        (p, q.unwrap_or_else(|| find(second)))
    })
}

/// DSA parameters p (2048 bits), q (256 bits) and g.
pub(super) fn dsa_parameters(seed: Seed) -> (BigUint, BigUint, BigUint) {
    const L: usize = 32;
    let random = &mut StdRng::from_seed(seed.0);
    let mut below = [0; 32];
    random.fill_bytes(&mut below);
    let q = prime::<4>(Seed(below));
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
                let open = digits[L - 1] >> 63 == 1 && !remainders(&digits, small).contains(&0);
                if open && first_prime(&[digits], random).is_some() {
                    let exponent = (&p - &one) / &q;
                    let bases = (2_u8..).map(|base| BigUint::from(base).modpow(&exponent, &p));
                    if let Some(g) = bases.into_iter().find(|g| *g > one) {
                        return (p, q, g);
                    }
                }
            }
            p += &double;
        }
    }
}
