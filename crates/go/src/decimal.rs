//! Exact decimal arithmetic behind Sprig's `addf`, `subf`, `mulf` and `divf`.

use num_bigint::{BigInt, Sign};

/// Fractional digits kept by a division.
const DIVISION_DIGITS: i64 = 16;

/// A number `digits × 10^exponent`.
#[derive(Clone, Debug)]
pub struct Decimal {
    digits: BigInt,
    exponent: i64,
}

/// The reason a calculation has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecimalError {
    /// Infinities and NaN have no decimal form.
    #[error("Cannot create a Decimal from {0}")]
    NotFinite(String),
    /// A division by zero.
    #[error("decimal division by 0")]
    DivisionByZero,
}

impl Decimal {
    /// The shortest decimal that reads back as `value`.
    pub fn from_f64(value: f64) -> Result<Self, DecimalError> {
        if !value.is_finite() {
            let name = if value.is_nan() {
                "NaN"
            } else if value > 0.0 {
                "+Inf"
            } else {
                "-Inf"
            };
            return Err(DecimalError::NotFinite(name.to_owned()));
        }
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i64 = exponent.parse().unwrap_or(0);
        let fraction = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let digits: BigInt = mantissa.replace('.', "").parse().unwrap_or_default();
        Ok(Self { digits, exponent: exponent - i64::try_from(fraction).unwrap_or(0) })
    }

    /// The nearest float.
    pub fn to_f64(&self) -> f64 {
        format!("{}e{}", self.digits, self.exponent).parse().unwrap_or(0.0)
    }

    fn align_exponents(&self, other: &Self) -> (BigInt, BigInt, i64) {
        let exponent = self.exponent.min(other.exponent);
        (
            scale_digits(&self.digits, self.exponent - exponent),
            scale_digits(&other.digits, other.exponent - exponent),
            exponent,
        )
    }

    /// The exact sum.
    pub fn add(&self, other: &Self) -> Self {
        let (left, right, exponent) = self.align_exponents(other);
        Self { digits: left + right, exponent }
    }

    /// The exact difference.
    pub fn sub(&self, other: &Self) -> Self {
        let (left, right, exponent) = self.align_exponents(other);
        Self { digits: left - right, exponent }
    }

    /// The exact product.
    pub fn mul(&self, other: &Self) -> Self {
        Self { digits: &self.digits * &other.digits, exponent: self.exponent + other.exponent }
    }

    /// The quotient to sixteen fractional digits, halves away from zero.
    pub fn div(&self, other: &Self) -> Result<Self, DecimalError> {
        if other.digits.sign() == Sign::NoSign {
            return Err(DecimalError::DivisionByZero);
        }
        let shift = self.exponent - other.exponent + DIVISION_DIGITS;
        let (numerator, denominator) = if shift >= 0 {
            (scale_digits(&self.digits, shift), other.digits.clone())
        } else {
            (self.digits.clone(), scale_digits(&other.digits, -shift))
        };
        let mut quotient = &numerator / &denominator;
        let rest = &numerator - &quotient * &denominator;
        if rest.magnitude() * 2_u32 >= *denominator.magnitude() {
            let negative = (numerator.sign() == Sign::Minus) != (denominator.sign() == Sign::Minus);
            quotient += if negative { -1 } else { 1 };
        }
        Ok(Self { digits: quotient, exponent: -DIVISION_DIGITS })
    }
}

fn scale_digits(digits: &BigInt, by: i64) -> BigInt {
    digits * BigInt::from(10).pow(u32::try_from(by).unwrap_or(0))
}
