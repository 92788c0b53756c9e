//! Element-wise functions over vectors, accurate to a few units of f32 (see the tests' bounds).

use super::Simd;

/// `e^x`; arguments outside -87..88 count as the nearer end, NaN stays NaN.
#[inline(always)]
pub fn exp<S: Simd>(s: S, x: S::V) -> S::V {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    // ln 2 in two parts; the first has so few bits that n * LN2_HIGH is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let x = s.min(s.splat(88.0), s.max(s.splat(-87.0), x));
    let n = s.round(s.mul(x, s.splat(LOG2_E)));
    let r = s.fma(n, s.splat(-LN2_HIGH), x);
    let r = s.fma(n, s.splat(-LN2_LOW), r);
    // Taylor on |r| <= ln(2)/2: the first omitted term is below 6e-9.
    let mut p = s.splat(1.0 / 5040.0);
    p = s.fma(p, r, s.splat(1.0 / 720.0));
    p = s.fma(p, r, s.splat(1.0 / 120.0));
    p = s.fma(p, r, s.splat(1.0 / 24.0));
    p = s.fma(p, r, s.splat(1.0 / 6.0));
    p = s.fma(p, r, s.splat(0.5));
    p = s.fma(p, r, s.splat(1.0));
    p = s.fma(p, r, s.splat(1.0));
    s.times_power_of_two(p, n)
}

/// `2^x` of numbers whose powers f32 has.
#[inline(always)]
fn exp2<S: Simd>(s: S, x: S::V) -> S::V {
    let n = s.round(x);
    let r = s.sub(x, n);
    // Taylor on |r| <= 1/2: the first omitted term is below 2e-7.
    const C: [f32; 7] =
        [1.0, std::f32::consts::LN_2, 0.240_226_5, 0.055_504_11, 0.009_618_129, 0.001_333_355_8, 1.540_353e-4];
    let mut p = s.splat(C[6]);
    for coefficient in C[..6].iter().rev() {
        p = s.fma(p, r, s.splat(*coefficient));
    }
    s.times_power_of_two(p, n)
}

/// `1 / (1 + e^-x)`
#[inline(always)]
fn sigmoid<S: Simd>(s: S, x: S::V) -> S::V {
    let one = s.splat(1.0);
    s.div(one, s.add(one, exp(s, s.sub(s.splat(0.0), x))))
}

/// `tanh x = 2 * sigmoid(2x) - 1`; absolute error of one unit at 1.
#[inline(always)]
pub fn tanh<S: Simd>(s: S, x: S::V) -> S::V {
    s.fma(s.splat(2.0), sigmoid(s, s.add(x, x)), s.splat(-1.0))
}

/// `cap * tanh(x / cap)`
#[inline(always)]
pub fn soft_cap<S: Simd>(s: S, x: S::V, cap: f32) -> S::V {
    s.mul(s.splat(cap), tanh(s, s.mul(x, s.splat(1.0 / cap))))
}

/// A function applied to every value; a type, so that loops are compiled per function.
pub trait Function {
    fn of<S: Simd>(s: S, x: S::V) -> S::V;
}

/// `x`
pub struct Identity;
/// `x * sigmoid(x)`
pub struct Silu;
/// `x/2 * (1 + tanh(√(2/π) (x + 0.044715 x³)))`
pub struct GeluTanh;
/// `x/2 * (1 + erf(x/√2))`
pub struct GeluErf;

impl Function for Identity {
    #[inline(always)]
    fn of<S: Simd>(_: S, x: S::V) -> S::V {
        x
    }
}

impl Function for Silu {
    #[inline(always)]
    fn of<S: Simd>(s: S, x: S::V) -> S::V {
        let one = s.splat(1.0);
        s.div(x, s.add(one, exp(s, s.sub(s.splat(0.0), x))))
    }
}

impl GeluTanh {
    /// Twice the root of 2/π.
    pub const TWO_ROOT: f32 = 1.595_769_2;
    pub const CUBIC: f32 = 0.044_715;
}

impl Function for GeluTanh {
    #[inline(always)]
    fn of<S: Simd>(s: S, x: S::V) -> S::V {
        // (1 + tanh u) / 2 = sigmoid(2u)
        let cubic = s.fma(s.mul(s.splat(Self::CUBIC), s.mul(x, x)), x, x);
        let u2 = s.mul(s.splat(Self::TWO_ROOT), cubic);
        let one = s.splat(1.0);
        s.div(x, s.add(one, exp(s, s.sub(s.splat(0.0), u2))))
    }
}

impl Function for GeluErf {
    #[inline(always)]
    fn of<S: Simd>(s: S, x: S::V) -> S::V {
        // With Φ = (1 + erf(x/√2)) / 2: log2(Φ / (1 - Φ)) = x P(x²), fitted so that Φ is good to 3e-8 up to 5.4. From there
        // on it is 0 or 1 as near as that.
        const P: [f32; 7] =
            [2.302_209_4, 0.104_835_12, -9.404_923e-5, -1.595_799_4e-4, 1.143_983_3e-5, -3.816_312_5e-7, 5.067_235e-9];
        let one = s.splat(1.0);
        let c = s.min(s.splat(5.4), s.max(s.splat(-5.4), x));
        let square = s.mul(c, c);
        let mut p = s.splat(P[6]);
        for coefficient in P[..6].iter().rev() {
            p = s.fma(p, square, s.splat(*coefficient));
        }
        let odds_against = exp2(s, s.mul(s.sub(s.splat(0.0), c), p));
        s.mul(x, s.reciprocal(s.add(one, odds_against)))
    }
}
