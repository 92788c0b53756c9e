//! How close two vectors are, computed in f64.

/// The cosine of the angle between two vectors; NaN where one has no direction or is not finite.
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len(), "vectors of different lengths");
    let dot: f64 = a.iter().zip(b).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum();
    dot / (norm(a.iter().copied()) * norm(b.iter().copied()))
}

/// `‖a − b‖ / ‖b‖`, with `b` the reference.
pub fn relative_error(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len(), "vectors of different lengths");
    let difference = a.iter().zip(b).map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2)).sum::<f64>().sqrt();
    difference / norm(b.iter().copied())
}

fn norm(values: impl Iterator<Item = f32>) -> f64 {
    values.map(|v| f64::from(v).powi(2)).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_vectors_have_cosine_one_and_scale_shows_as_error() {
        let (a, b) = ([2.0, 4.0, -6.0], [1.0, 2.0, -3.0]);
        assert!((cosine(&a, &b) - 1.0).abs() < 1e-12);
        assert!((relative_error(&a, &b) - 1.0).abs() < 1e-12);
        assert_eq!(relative_error(&b, &b), 0.0);
    }

    #[test]
    fn a_nan_never_compares_as_close() {
        assert!(cosine(&[f32::NAN, 1.0], &[1.0, 1.0]).is_nan());
        assert!(relative_error(&[f32::NAN, 1.0], &[1.0, 1.0]).is_nan());
    }
}
