//! Random keys of rows, and digests.

use kstore::Digest;
use kstore::key::{Purpose, Stream};
#[test]
fn streams_differ_by_seed_purpose_and_round() {
    let base = Stream::new(0, Purpose::Folds, 0).word(5);
    assert_ne!(base, Stream::new(1, Purpose::Folds, 0).word(5));
    assert_ne!(base, Stream::new(0, Purpose::Median, 0).word(5));
    assert_ne!(base, Stream::new(0, Purpose::Folds, 1).word(5));
}

#[test]
fn uniforms_have_the_right_mean_variance_and_serial_correlation() {
    let stream = Stream::new(3, Purpose::Candidates, 0);
    let n = 200_000u64;
    let u: Vec<f64> = (0..n).map(|i| stream.uniform(i)).collect();
    let mean = u.iter().sum::<f64>() / n as f64;
    let var = u.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64;
    let serial = u.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum::<f64>() / n as f64;
    // five standard errors of each statistic under independence
    assert!((mean - 0.5).abs() < 5.0 * (1.0f64 / 12.0 / n as f64).sqrt(), "{mean}");
    assert!((var - 1.0 / 12.0).abs() < 5.0 * (1.0f64 / 180.0 / n as f64).sqrt(), "{var}");
    assert!(serial.abs() < 5.0 / 12.0 / (n as f64).sqrt(), "{serial}");
}

#[test]
fn every_bucket_of_below_is_equally_likely() {
    let stream = Stream::new(0, Purpose::Folds, 0);
    let mut counts = [0f64; 5];
    for row in 0..100_000 {
        counts[stream.uniform_below(row, 5) as usize] += 1.0;
    }
    let chi2: f64 = counts.iter().map(|c| (c - 20_000.0f64).powi(2) / 20_000.0).sum();
    assert!(chi2 < 23.5, "chi-squared with 4 degrees of freedom, p = 1e-4: {chi2}");
}

#[test]
fn every_byte_its_place_and_the_length_count() {
    let bytes: Vec<u8> = (0..100).collect();
    let whole = Digest::hex_of(&bytes);
    assert_eq!(whole.len(), 16);
    for i in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[i] ^= 1 << bit;
            assert_ne!(Digest::hex_of(&flipped), whole, "bit {bit} of byte {i}");
        }
    }
    // the signs of two numbers swapped, and trailing zeros
    assert_ne!(
        Digest::hex_of(&[1.0f64, -1.0].map(f64::to_le_bytes).concat()),
        Digest::hex_of(&[-1.0f64, 1.0].map(f64::to_le_bytes).concat())
    );
    assert_ne!(Digest::hex_of(&[0; 8]), Digest::hex_of(&[0; 16]));
    assert_ne!(Digest::hex_of(&[]), Digest::hex_of(&[0]));
}
