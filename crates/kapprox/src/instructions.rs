//! The instruction set that kernels and products dispatch to.

/// The instruction set that kernels and products use on this machine: the same bits are promised within one.
pub fn instruction_set() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        let level = if std::arch::is_x86_feature_detected!("avx512f") {
            "AVX-512"
        } else if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            "AVX2"
        } else {
            "SSE2"
        };
        format!("x86-64 {level}")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        std::env::consts::ARCH.to_string()
    }
}
