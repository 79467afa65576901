//! Widens ASCII to UTF-16 by the vector instructions that every processor of the target has.
//!
//! Compilers make less of the same steps in safe code: they take arrays of 16 bytes to pieces, and
//! need more registers than the path of an event has to spare.
#![allow(
    unsafe_code,
    clippy::multiple_unsafe_ops_per_block,
    reason = "each block is one step: addresses in range, a load, vector instructions, a store"
)]

#[cfg(target_arch = "aarch64")]
use core::arch::aarch64 as arch;
#[cfg(target_arch = "x86")]
use core::arch::x86 as arch;
#[cfg(target_arch = "x86_64")]
use core::arch::x86_64 as arch;

/// Writes text as little-endian UTF-16 if it is all ASCII without a NUL. Returns `false` if it is
/// not, or if it does not fit; what has been written by then is unspecified.
#[inline(always)]
pub(super) fn plain(from: &[u8], to: &mut [u8]) -> bool {
    // SAFETY: as many bytes as the slice has, and compared. A slice has at most half of the
    // addresses, and a unique reference overlaps no other.
    to.len() >= 2 * from.len() && unsafe { widen(from.as_ptr(), from.len(), to.as_mut_ptr()) }
}

/// Does what [`plain`] says.
///
/// Lengths of 4 bytes and more are covered by whole steps, the last of which may overlap the one
/// before it.
///
/// # Safety
/// `len` bytes can be read from `from`, and twice as many written from `to`. They do not overlap.
#[inline(always)]
unsafe fn widen(from: *const u8, len: usize, to: *mut u8) -> bool {
    // Not necessarily aligned. Instructions then reach the last units by the length itself.
    let to = to.cast::<u16>();
    if len.wrapping_sub(8) <= 8 {
        // SAFETY: the first and the last 8 of 8 to 16 bytes and units.
        return unsafe {
            let bytes = Bytes::load_halves(from, from.add(len - 8));
            bytes.are_plain() && bytes.widen(to, to.add(len - 8))
        };
    }
    if len > 16 {
        let (mut at, mut seen) = (0, Bytes::plain());
        while at < len - 16 {
            // SAFETY: 16 bytes and units from `at` on, which is less than `len - 16`.
            unsafe {
                let bytes = Bytes::load(from.add(at));
                seen = seen.and(bytes);
                bytes.widen(to.add(at), to.add(at + 8));
            }
            at += 16;
        }
        // SAFETY: the last 16 of more than 16 bytes and units.
        return unsafe {
            let bytes = Bytes::load(from.add(len - 16));
            seen.and(bytes).are_plain() && bytes.widen(to.add(len - 16), to.add(len - 8))
        };
    }
    if len >= 4 {
        // SAFETY: the first and the last 4 of 4 to 7 bytes and units.
        return unsafe {
            let first = from.cast::<u32>().read_unaligned();
            let last = from.add(len - 4).cast::<u32>().read_unaligned();
            let bytes = Bytes::of(first, last);
            bytes.begins_plain() && bytes.widen_few(to, to.add(len - 4))
        };
    }
    for at in 0..len {
        // SAFETY: a byte and a unit below `len`.
        unsafe {
            let byte = *from.add(at);
            if byte as i8 <= 0 {
                return false;
            }
            to.add(at).write_unaligned(u16::from(byte));
        }
    }
    true
}

/// Sixteen bytes of text.
#[derive(Clone, Copy)]
struct Bytes(
    #[cfg(target_feature = "sse2")] arch::__m128i,
    #[cfg(target_feature = "neon")] arch::uint8x16_t,
);

#[cfg(target_feature = "sse2")]
impl Bytes {
    /// # Safety
    /// 16 bytes can be read.
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's. The target has SSE2, here and below.
        Self(unsafe { arch::_mm_loadu_si128(from.cast()) })
    }

    /// # Safety
    /// 8 bytes can be read from each pointer.
    #[inline(always)]
    unsafe fn load_halves(first: *const u8, second: *const u8) -> Self {
        // SAFETY: the caller's.
        unsafe {
            let first = arch::_mm_castsi128_pd(arch::_mm_loadl_epi64(first.cast()));
            Self(arch::_mm_castpd_si128(arch::_mm_loadh_pd(first, second.cast())))
        }
    }

    /// Four bytes, four others, and zeros.
    #[inline(always)]
    fn of(first: u32, second: u32) -> Self {
        // SAFETY: the target has SSE2.
        unsafe {
            let first = arch::_mm_cvtsi32_si128(first as i32);
            let second = arch::_mm_cvtsi32_si128(second as i32);
            Self(arch::_mm_unpacklo_epi32(first, second))
        }
    }

    /// Plain bytes.
    #[inline(always)]
    fn plain() -> Self {
        // SAFETY: the target has SSE2.
        Self(unsafe { arch::_mm_set1_epi8(1) })
    }

    /// Bytes that are plain if these and the others are.
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: the target has SSE2.
        unsafe {
            let are_plain = arch::_mm_cmpgt_epi8(other.0, arch::_mm_setzero_si128());
            Self(arch::_mm_and_si128(self.0, are_plain))
        }
    }

    /// One bit for each byte that is ASCII and not 0.
    #[inline(always)]
    fn plain_bits(self) -> i32 {
        // SAFETY: the target has SSE2.
        unsafe { arch::_mm_movemask_epi8(arch::_mm_cmpgt_epi8(self.0, arch::_mm_setzero_si128())) }
    }

    /// Whether all are ASCII and none is 0.
    #[inline(always)]
    fn are_plain(self) -> bool {
        self.plain_bits() == 0xffff
    }

    /// Whether the first eight are ASCII and not 0.
    #[inline(always)]
    fn begins_plain(self) -> bool {
        self.plain_bits() as u8 == 0xff
    }

    /// Writes the first eight as units, then the others. Returns `true`.
    ///
    /// # Safety
    /// Eight units can be written to each pointer.
    #[inline(always)]
    unsafe fn widen(self, first: *mut u16, second: *mut u16) -> bool {
        // SAFETY: the caller's.
        unsafe {
            let zero = arch::_mm_setzero_si128();
            arch::_mm_storeu_si128(first.cast(), arch::_mm_unpacklo_epi8(self.0, zero));
            arch::_mm_storeu_si128(second.cast(), arch::_mm_unpackhi_epi8(self.0, zero));
        }
        true
    }

    /// Writes the first four as units, then the next four. Returns `true`.
    ///
    /// # Safety
    /// Four units can be written to each pointer.
    #[inline(always)]
    unsafe fn widen_few(self, first: *mut u16, second: *mut u16) -> bool {
        // SAFETY: the caller's.
        unsafe {
            let wide = arch::_mm_unpacklo_epi8(self.0, arch::_mm_setzero_si128());
            arch::_mm_storel_epi64(first.cast(), wide);
            arch::_mm_storel_epi64(second.cast(), arch::_mm_unpackhi_epi64(wide, wide));
        }
        true
    }
}

#[cfg(target_feature = "neon")]
impl Bytes {
    /// # Safety
    /// 16 bytes can be read.
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's. The target has Neon, here and below.
        Self(unsafe { arch::vld1q_u8(from) })
    }

    /// # Safety
    /// 8 bytes can be read from each pointer.
    #[inline(always)]
    unsafe fn load_halves(first: *const u8, second: *const u8) -> Self {
        // SAFETY: the caller's.
        Self(unsafe { arch::vcombine_u8(arch::vld1_u8(first), arch::vld1_u8(second)) })
    }

    /// Four bytes, four others, and zeros.
    #[inline(always)]
    fn of(first: u32, second: u32) -> Self {
        let both = u64::from(first) | u64::from(second) << 32;
        // SAFETY: the target has Neon.
        Self(unsafe { arch::vcombine_u8(arch::vcreate_u8(both), arch::vcreate_u8(0)) })
    }

    /// Plain bytes.
    #[inline(always)]
    fn plain() -> Self {
        // SAFETY: the target has Neon.
        Self(unsafe { arch::vdupq_n_u8(1) })
    }

    /// Bytes that are plain if these and the others are.
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: the target has Neon.
        unsafe {
            let (this, other) =
                (arch::vreinterpretq_s8_u8(self.0), arch::vreinterpretq_s8_u8(other.0));
            Self(arch::vreinterpretq_u8_s8(arch::vminq_s8(this, other)))
        }
    }

    /// Whether all are ASCII and none is 0.
    #[inline(always)]
    fn are_plain(self) -> bool {
        // SAFETY: the target has Neon.
        unsafe { arch::vminvq_s8(arch::vreinterpretq_s8_u8(self.0)) > 0 }
    }

    /// Whether the first eight are ASCII and not 0.
    #[inline(always)]
    fn begins_plain(self) -> bool {
        // SAFETY: the target has Neon.
        unsafe { arch::vminv_s8(arch::vreinterpret_s8_u8(arch::vget_low_u8(self.0))) > 0 }
    }

    /// Writes the first eight as units, then the others. Returns `true`.
    ///
    /// # Safety
    /// Eight units can be written to each pointer.
    #[inline(always)]
    unsafe fn widen(self, first: *mut u16, second: *mut u16) -> bool {
        // SAFETY: the caller's.
        unsafe {
            let wide = arch::vreinterpretq_u8_u16(arch::vmovl_u8(arch::vget_low_u8(self.0)));
            arch::vst1q_u8(first.cast(), wide);
            let wide = arch::vreinterpretq_u8_u16(arch::vmovl_high_u8(self.0));
            arch::vst1q_u8(second.cast(), wide);
        }
        true
    }

    /// Writes the first four as units, then the next four. Returns `true`.
    ///
    /// # Safety
    /// Four units can be written to each pointer.
    #[inline(always)]
    unsafe fn widen_few(self, first: *mut u16, second: *mut u16) -> bool {
        // SAFETY: the caller's.
        unsafe {
            let wide = arch::vreinterpretq_u8_u16(arch::vmovl_u8(arch::vget_low_u8(self.0)));
            arch::vst1_u8(first.cast(), arch::vget_low_u8(wide));
            arch::vst1_u8(second.cast(), arch::vget_high_u8(wide));
        }
        true
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use std::{vec, vec::Vec};

    use super::plain;
    use crate::payload::text::tests::for_each_text;

    /// Compares with the standard library, and looks at the bytes around what was written.
    fn check(text: &str) {
        let mut out = vec![0xAA; 2 * text.len() + 32];
        let is_plain = plain(text.as_bytes(), &mut out[16..][..2 * text.len()]);
        assert_eq!(is_plain, text.bytes().all(|byte| byte.is_ascii() && byte != 0), "{text:?}");
        let (before, rest) = out.split_at(16);
        let (units, after) = rest.split_at(2 * text.len());
        assert!(before.iter().chain(after).all(|byte| *byte == 0xAA), "{text:?}");
        if is_plain {
            let expected: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            assert_eq!(units, expected, "{text:?}");
        }
    }

    #[test]
    fn every_length_and_every_place() {
        for_each_text(check);
    }
}
