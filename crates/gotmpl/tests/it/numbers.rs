//! strconv and fmt on their own.

use slipway_go::strconv::{NumError, format_float, parse_float, parse_int, parse_uint};
use slipway_gotmpl::{GoValue, fmt};

#[test]
fn floats_format_as_in_go() {
    let cases: &[(f64, u8, i32, &str)] = &[
        (999_999.0, b'g', -1, "999999"),
        (1_000_000.0, b'g', -1, "1e+06"),
        (1e21, b'f', -1, "1000000000000000000000"),
        (-0.0, b'g', -1, "-0"),
        (0.00001, b'g', -1, "1e-05"),
        (100.0, b'g', 3, "100"),
        (2.5, b'f', 0, "2"),
        (1.0, b'x', -1, "0x1p+00"),
        (3.75, b'x', -1, "0x1.ep+01"),
        (1.5, b'x', 0, "0x1p+01"),
        (3.5, b'b', -1, "7881299347898368p-51"),
        (f64::INFINITY, b'g', -1, "+Inf"),
    ];
    for (n, verb, precision, want) in cases {
        assert_eq!(format_float(*n, *verb, *precision), *want);
    }
}

#[test]
fn numbers_parse_as_in_go() {
    assert_eq!(parse_int("-0x1F", 0), Ok(-31));
    assert_eq!(parse_int("010", 0), Ok(8));
    assert_eq!(parse_int("09", 0), Err(NumError::Syntax));
    assert_eq!(parse_int("1_000", 0), Ok(1000));
    assert_eq!(parse_int("1_000", 10), Err(NumError::Syntax));
    assert_eq!(parse_int("1__0", 0), Err(NumError::Syntax));
    assert_eq!(parse_int("9223372036854775808", 10), Err(NumError::Range));
    assert_eq!(parse_int("-9223372036854775808", 10), Ok(i64::MIN));
    assert_eq!(parse_uint("0b11", 0), Ok(3));
    assert_eq!(parse_uint("+1", 10), Err(NumError::Syntax));
    assert_eq!(parse_float("1_0.5"), Ok(10.5));
    assert_eq!(parse_float("0x1p-2"), Ok(0.25));
    assert_eq!(parse_float("0x10"), Err(NumError::Syntax));
    assert_eq!(parse_float("1e400"), Err(NumError::Range));
    assert_eq!(parse_float("-Inf"), Ok(f64::NEG_INFINITY));
    assert_eq!(parse_float(" 1"), Err(NumError::Syntax));
    assert_eq!(parse_float(""), Err(NumError::Syntax));
}

#[test]
fn extreme_widths_and_precisions_are_bounded() {
    for format in ["%.9999999f", "%9999999d", "%.9999999U", "%.9999999e", "%.9999999x", "%99999999999d"] {
        let out = fmt::sprintf(format.as_bytes(), &[GoValue::Float64(0.5)], 64 << 20).unwrap();
        assert!(out.len() < 32 << 20, "{format}");
        let out = fmt::sprintf(format.as_bytes(), &[GoValue::Int(5)], 64 << 20).unwrap();
        assert!(out.len() < 32 << 20, "{format}");
    }
}
