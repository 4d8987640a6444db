//! Loops compiled for several instruction sets, of which the best one of the machine is chosen at run time.

/// Defines a function whose body is compiled for AVX-512, for AVX2 and for any machine.
///
/// The body is generic over whether a fused multiply-add is one instruction: where it is not, `f32::mul_add`
/// would be a call of a library function for every number.
macro_rules! simd {
    (
        $(#[$meta:meta])*
        $visible:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? = $body:ident;
    ) => {
        $(#[$meta])*
        #[inline]
        $visible fn $name($($argument: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,fma")]
                fn widest($($argument: $type),*) $(-> $result)? {
                    $body::<true>($($argument),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn wide($($argument: $type),*) $(-> $result)? {
                    $body::<true>($($argument),*)
                }
                if is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512bw")
                {
                    // SAFETY: the machine has the instructions.
                    #[allow(unsafe_code)]
                    return unsafe { widest($($argument),*) };
                }
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    // SAFETY: the machine has the instructions.
                    #[allow(unsafe_code)]
                    return unsafe { wide($($argument),*) };
                }
            }
            $body::<{ cfg!(target_feature = "fma") || cfg!(target_arch = "aarch64") }>($($argument),*)
        }
    };
}

pub(crate) use simd;

/// `a * b + c`.
#[inline(always)]
pub fn fma<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// Numbers in a line of the cache.
const CACHE_LINE: usize = 16;

/// Asks for the line of the cache in which a number lies, to have it there later. Any place may be named: one
/// outside the slice is merely useless.
///
/// It is brought into the second-level cache: more lines can be on their way there than to the first, which
/// makes random rows arrive up to 1.4 times as fast as with a request for the first, as measured on Zen 4.
#[inline(always)]
pub fn prefetch(values: &[f32], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        let place = values.as_ptr().wrapping_add(at);
        // SAFETY: the instruction is part of every such machine, never faults and changes no memory.
        #[allow(unsafe_code)]
        unsafe {
            _mm_prefetch::<_MM_HINT_T1>(place.cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, at);
}

/// Asks for `width` numbers, as [`prefetch`] does for one.
#[inline(always)]
pub fn prefetch_row(values: &[f32], start: usize, width: usize) {
    for column in (0..width).step_by(CACHE_LINE) {
        prefetch(values, start + column);
    }
    // A row that does not begin where a line does ends in one line more. To ask for a line twice costs a
    // quarter of the time that rows of sixteen numbers take to arrive.
    let is_aligned = (values.as_ptr().addr() / size_of::<f32>() + start).is_multiple_of(CACHE_LINE);
    if width >= CACHE_LINE && !is_aligned {
        prefetch(values, start + width - 1);
    }
}

/// The exponential function to within two units of the last place, without branches, so that loops over it
/// vectorise.
///
/// Cody and Waite's reduction by multiples of ln 2 in two parts, then a polynomial of degree five.
#[inline(always)]
pub fn exp<const FUSED: bool>(x: f32) -> f32 {
    const MAGIC: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let shifted = fma::<FUSED>(x, std::f32::consts::LOG2_E, MAGIC);
    let whole = (shifted.to_bits() as i32).wrapping_sub(MAGIC.to_bits() as i32);
    let multiple = shifted - MAGIC;
    let rest = fma::<FUSED>(multiple, -0.693_359_4, x);
    let rest = fma::<FUSED>(multiple, 2.121_944_4e-4, rest);
    let mut sum = fma::<FUSED>(1.987_569_1e-4, rest, 1.398_199_9e-3);
    sum = fma::<FUSED>(sum, rest, 8.333_452e-3);
    sum = fma::<FUSED>(sum, rest, 4.166_579_6e-2);
    sum = fma::<FUSED>(sum, rest, 1.666_666_6e-1);
    sum = fma::<FUSED>(sum, rest, 0.5);
    sum = fma::<FUSED>(sum * rest, rest, rest + 1.0);
    sum * f32::from_bits(((whole + 127) << 23) as u32)
}

/// `ln(1 + y)` for `y` from 0 to 1, by the series of the inverse hyperbolic tangent, whose argument is at
/// most a third there.
#[inline(always)]
pub fn log_of_one_plus<const FUSED: bool>(y: f32) -> f32 {
    let s = y / (2.0 + y);
    let square = s * s;
    let mut sum = fma::<FUSED>(1.0 / 13.0, square, 1.0 / 11.0);
    for term in [1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0, 1.0] {
        sum = fma::<FUSED>(sum, square, term);
    }
    2.0 * s * sum
}

/// The logistic function.
#[inline(always)]
pub fn sigmoid<const FUSED: bool>(x: f32) -> f32 {
    1.0 / one_plus_exp::<FUSED>(x)
}

/// The hyperbolic tangent, with an error that is small beside it however small it is: cells of several layers
/// are often close to zero, and `2 sigmoid(2 x) - 1` has lost its digits there.
#[inline(always)]
pub fn tanh<const FUSED: bool>(x: f32) -> f32 {
    let more = exp_minus_one::<FUSED>(x + x);
    more / (more + 2.0)
}

/// `exp(x) - 1`, likewise.
#[inline(always)]
fn exp_minus_one<const FUSED: bool>(x: f32) -> f32 {
    const MAGIC: f32 = 12_582_912.0;
    let x = x.clamp(-40.0, 40.0);
    let shifted = fma::<FUSED>(x, std::f32::consts::LOG2_E, MAGIC);
    let rest = fma::<FUSED>(x, std::f32::consts::LOG2_E, MAGIC - shifted);
    // The series of a power of two without its first term.
    let mut sum = fma::<FUSED>(1.525_273_4e-5, rest, 1.540_353e-4);
    sum = fma::<FUSED>(sum, rest, 1.333_355_8e-3);
    sum = fma::<FUSED>(sum, rest, 9.618_129e-3);
    sum = fma::<FUSED>(sum, rest, 5.550_411e-2);
    sum = fma::<FUSED>(sum, rest, 2.402_265e-1);
    sum = fma::<FUSED>(sum, rest, std::f32::consts::LN_2) * rest;
    // The whole part stands in the lowest bits of the shifted number, and belongs into the exponent.
    let power = f32::from_bits(1f32.to_bits().wrapping_add(shifted.to_bits() << 23));
    fma::<FUSED>(power, sum, power - 1.0)
}

/// `1 + exp(-x)`, with an error that is as small beside the logistic function, which is flat where the
/// exponential function is large: so the power of two needs neither a reduction in two parts nor a polynomial
/// of more than degree five.
#[inline(always)]
fn one_plus_exp<const FUSED: bool>(x: f32) -> f32 {
    const MAGIC: f32 = 12_582_912.0;
    // The product of two of these is finite.
    let x = x.clamp(-40.0, 40.0);
    let shifted = fma::<FUSED>(x, -std::f32::consts::LOG2_E, MAGIC);
    let rest = fma::<FUSED>(x, -std::f32::consts::LOG2_E, MAGIC - shifted);
    let mut sum = fma::<FUSED>(1.327_647_2e-3, rest, 9.675_541e-3);
    sum = fma::<FUSED>(sum, rest, 5.550_713e-2);
    sum = fma::<FUSED>(sum, rest, 2.402_212e-1);
    sum = fma::<FUSED>(sum, rest, 6.931_469_4e-1);
    sum = fma::<FUSED>(sum, rest, 1.000_000_1);
    // The whole part stands in the lowest bits of the shifted number, and belongs into the exponent.
    1.0 + f32::from_bits(sum.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// The logistic function of one number and the hyperbolic tangent of another with one division.
#[inline(always)]
pub fn sigmoid_and_tanh<const FUSED: bool>(x: f32, y: f32) -> (f32, f32) {
    let (a, more) = (one_plus_exp::<FUSED>(x), exp_minus_one::<FUSED>(y + y));
    let b = more + 2.0;
    let inverse = 1.0 / (a * b);
    (b * inverse, more * (a * inverse))
}

/// The logistic functions of two numbers with one division, which costs as much as most of the rest:
/// `1 / a = b / (a b)`.
#[inline(always)]
pub fn sigmoid_pair<const FUSED: bool>(x: f32, y: f32) -> (f32, f32) {
    let (a, b) = (one_plus_exp::<FUSED>(x), one_plus_exp::<FUSED>(y));
    let inverse = 1.0 / (a * b);
    (b * inverse, a * inverse)
}

/// Replaces numbers by their logistic function.
///
/// Loops over one slice vectorise without fail, which loops over several that are written to do not.
#[inline(always)]
pub fn sigmoid_all<const FUSED: bool>(values: &mut [f32]) {
    values.iter_mut().for_each(|value| *value = sigmoid::<FUSED>(*value));
}

/// Replaces numbers by their hyperbolic tangent.
#[inline(always)]
pub fn tanh_all<const FUSED: bool>(values: &mut [f32]) {
    values.iter_mut().for_each(|value| *value = tanh::<FUSED>(*value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_close_to_those_of_the_library() {
        for i in -8000..=8000 {
            let x = i as f32 * 0.01;
            let exact = f64::from(x).exp();
            for found in [exp::<false>(x), exp::<true>(x)] {
                assert!((f64::from(found) - exact).abs() <= 4e-7 * exact, "exp({x}) = {found}");
            }
            // Down to numbers next to nothing.
            for x in [x, 1e-2 * x, 1e-5 * x] {
                let exact = f64::from(x).tanh();
                for y in [-30.0, x, 60.0] {
                    let (both, tangent) = sigmoid_and_tanh::<true>(y, x);
                    assert!((f64::from(both) - 1.0 / (1.0 + (-f64::from(y)).exp())).abs() < 2e-7, "{y}");
                    for found in [tanh::<true>(x), tanh::<false>(x), tangent] {
                        assert!(
                            (f64::from(found) - exact).abs() <= 4e-7 * exact.abs(),
                            "tanh({x}) = {found}"
                        );
                    }
                }
            }
            let exact = |x: f32| 1.0 / (1.0 + (-f64::from(x)).exp());
            assert!((f64::from(sigmoid::<true>(x)) - exact(x)).abs() < 2e-7);
            for y in [-1e9, 0.3 * x, -x, 60.0] {
                let (first, second) = sigmoid_pair::<true>(x, y);
                assert!((f64::from(first) - exact(x)).abs() < 2e-7, "sigmoid({x}) = {first} beside {y}");
                assert!((f64::from(second) - exact(y)).abs() < 2e-7, "sigmoid({y}) = {second} beside {x}");
            }
        }
        for i in 0..=1000 {
            let y = i as f32 / 1000.0;
            let exact = f64::from(y).ln_1p();
            assert!((f64::from(log_of_one_plus::<true>(y)) - exact).abs() <= 3e-7 * exact, "ln(1 + {y})");
        }
        assert!(exp::<true>(-1e9) >= 0.0 && exp::<true>(1e9).is_finite() && tanh::<true>(1e9) == 1.0);
    }
}
