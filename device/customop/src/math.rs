//! Functions of the reals, as the device's runtime library has them; single precision.

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($argument:ident),+);)*) => {
        unsafe extern "C" {
            $($(#[$doc])* pub safe fn $name($($argument: f32),+) -> f32;)*
        }
    };
}

functions! {
    /// Arc tangent of y / x by the signs of both.
    atan2f(y, x);
    /// The smallest whole number that is not below.
    ceilf(x);
    /// Cosine.
    cosf(x);
    /// Error function.
    erff(x);
    /// e to the power of x.
    expf(x);
    /// The largest whole number that is not above.
    floorf(x);
    /// Natural logarithm.
    logf(x);
    /// Logarithm to base 10.
    log10f(x);
    /// Logarithm to base 2.
    log2f(x);
    /// x to the power of y.
    powf(x, y);
    /// The nearest whole number; a tie goes to the even one.
    rintf(x);
    /// The nearest whole number; a tie goes away from zero.
    roundf(x);
    /// Sine.
    sinf(x);
    /// Square root.
    sqrtf(x);
    /// Tangent.
    tanf(x);
    /// Hyperbolic tangent.
    tanhf(x);
    /// The whole part.
    truncf(x);
}
