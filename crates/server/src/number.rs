//! Numbers as answers have them.

use serde_json::Value;

/// A 32-bit number with the digits that it has, not those of the 64-bit number nearest to it. What is not finite has no number
/// in JSON, and becomes one that is smaller than any that could be.
pub fn number(value: f32) -> Value {
    if !value.is_finite() {
        return (-9999.0).into();
    }
    let digits = value.to_string();
    digits.parse::<f64>().map_or(Value::Null, Value::from)
}

#[cfg(test)]
mod tests {
    #[test]
    fn digits_stay() {
        for (value, text) in [(0.8, "0.8"), (-1.5e-7, "-1.5e-7"), (3.0, "3.0"), (f32::NEG_INFINITY, "-9999.0")] {
            assert_eq!(super::number(value).to_string(), text);
        }
    }
}
