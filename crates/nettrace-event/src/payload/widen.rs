//! Widens ASCII to UTF-16 by the vector instructions that every processor of the target has.
//!
//! Compilers make less of the same steps in safe code: they take arrays of 16 bytes to pieces, and
//! need more registers than the path of an event has to spare.
#![allow(
    unsafe_code,
    clippy::multiple_unsafe_ops_per_block,
    reason = "each block is one step: addresses in range, a load, vector instructions, a store"
)]

use core::num::NonZero;

#[cfg(target_arch = "aarch64")]
use core::arch::aarch64 as arch;
#[cfg(target_arch = "x86")]
use core::arch::x86 as arch;
#[cfg(target_arch = "x86_64")]
use core::arch::x86_64 as arch;

/// Writes text of up to 32 bytes as a count of units and little-endian UTF-16, from a position of
/// [`SliceBuffer`](super::SliceBuffer) on, if it is all ASCII without a NUL. Returns where it ends.
/// `None` if the text is longer, of another kind, or does not fit: what has been written by then is
/// unspecified.
#[inline(always)]
pub(super) fn counted(from: &[u8], to: &mut [u8], at: usize) -> Option<NonZero<usize>> {
    let len = from.len();
    if len.wrapping_sub(8) <= 8 {
        let end = end_of(at, len, to)?;
        // SAFETY: `end_of` has compared the room, so `at` is in `to`, and the count and the units
        // behind it are. The first and the last 8 of 8 to 16 bytes and units. A unique reference
        // overlaps no other.
        unsafe {
            let (from, at) = (from.as_ptr(), to.as_mut_ptr().add(at));
            let bytes = Bytes::load_halves(from, from.add(len - 8));
            if !bytes.are_plain() {
                return None;
            }
            let to = at.add(2).cast::<u16>();
            bytes.widen(to, to.add(len - 8));
            at.cast::<u16>().write_unaligned((len as u16).to_le());
        }
        return Some(end);
    }
    if len > 32 {
        return None;
    }
    write_counted(from, to, at, widen_few)
}

/// [`counted`] for text of more than 32 bytes.
#[inline(always)]
pub(super) fn counted_long(from: &[u8], to: &mut [u8], at: usize) -> Option<NonZero<usize>> {
    if !(33..=super::MAX_ELEMENTS).contains(&from.len()) {
        return None;
    }
    write_counted(from, to, at, widen_many)
}

/// Where a text of `len` units ends that begins at a position with their count. `None` if it does
/// not fit. `len` is at most [`MAX_ELEMENTS`](super::MAX_ELEMENTS).
#[inline(always)]
fn end_of(at: usize, len: usize, to: &[u8]) -> Option<NonZero<usize>> {
    // SAFETY: B1 of `slice`: a position is in the lower half of all numbers, and `len` is small.
    let end = unsafe { at.unchecked_add(2 * len + 2) };
    if end > to.len() { None } else { NonZero::new(end) }
}

/// Writes the count, and the units by `widen`, which is [`widen_few`] or [`widen_many`] and can
/// take as many.
#[inline(always)]
fn write_counted(
    from: &[u8],
    to: &mut [u8],
    at: usize,
    widen: unsafe fn(*const u8, usize, *mut u16) -> bool,
) -> Option<NonZero<usize>> {
    let end = end_of(at, from.len(), to)?;
    // SAFETY: `end_of` has compared the room: two bytes for the count, and two for each unit. A
    // unique reference overlaps no other.
    let is_plain = unsafe {
        let at = to.as_mut_ptr().add(at).cast::<u16>();
        at.write_unaligned((from.len() as u16).to_le());
        // Not necessarily aligned. Instructions then reach the last units by the length itself.
        widen(from.as_ptr(), from.len(), at.add(1))
    };
    is_plain.then_some(end)
}

/// Writes at most 32 bytes of text as units. Returns `false` if they are not plain.
///
/// Lengths of 4 bytes and more are covered by whole steps, the last of which may overlap the one
/// before it.
///
/// # Safety
/// `len` bytes can be read from `from`, and as many units written to `to`. They do not overlap.
#[inline]
unsafe fn widen_few(from: *const u8, len: usize, to: *mut u16) -> bool {
    if len > 16 {
        // SAFETY: the first and the last 16 of 17 to 32 bytes and units.
        return unsafe {
            let (first, last) = (Bytes::load(from), Bytes::load(from.add(len - 16)));
            let are_plain = first.and(last).are_plain();
            first.widen(to, to.add(8));
            are_plain && last.widen(to.add(len - 16), to.add(len - 8))
        };
    }
    if len >= 8 {
        // SAFETY: the first and the last 8 of 8 to 16 bytes and units.
        return unsafe {
            let bytes = Bytes::load_halves(from, from.add(len - 8));
            bytes.are_plain() && bytes.widen(to, to.add(len - 8))
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

/// [`widen_few`] for more than 16 bytes.
///
/// # Safety
/// As there, and `len` is more than 16.
#[inline(always)]
unsafe fn widen_many(from: *const u8, len: usize, to: *mut u16) -> bool {
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
    unsafe {
        let bytes = Bytes::load(from.add(len - 16));
        seen.and(bytes).are_plain() && bytes.widen(to.add(len - 16), to.add(len - 8))
    }
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
    #[inline]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's. The target has SSE2, here and below.
        Self(unsafe { arch::_mm_loadu_si128(from.cast()) })
    }

    /// # Safety
    /// 8 bytes can be read from each pointer.
    #[inline]
    unsafe fn load_halves(first: *const u8, second: *const u8) -> Self {
        // SAFETY: the caller's.
        unsafe {
            let first = arch::_mm_castsi128_pd(arch::_mm_loadl_epi64(first.cast()));
            Self(arch::_mm_castpd_si128(arch::_mm_loadh_pd(first, second.cast())))
        }
    }

    /// Four bytes, four others, and zeros.
    #[inline]
    fn of(first: u32, second: u32) -> Self {
        // SAFETY: the target has SSE2.
        unsafe {
            let first = arch::_mm_cvtsi32_si128(first as i32);
            let second = arch::_mm_cvtsi32_si128(second as i32);
            Self(arch::_mm_unpacklo_epi32(first, second))
        }
    }

    /// Plain bytes.
    #[inline]
    fn plain() -> Self {
        // SAFETY: the target has SSE2.
        Self(unsafe { arch::_mm_set1_epi8(1) })
    }

    /// Bytes that are plain if these and the others are.
    #[inline]
    fn and(self, other: Self) -> Self {
        // SAFETY: the target has SSE2.
        unsafe {
            let are_plain = arch::_mm_cmpgt_epi8(other.0, arch::_mm_setzero_si128());
            Self(arch::_mm_and_si128(self.0, are_plain))
        }
    }

    /// One bit for each byte that is ASCII and not 0.
    #[inline]
    fn plain_bits(self) -> i32 {
        // SAFETY: the target has SSE2.
        unsafe { arch::_mm_movemask_epi8(arch::_mm_cmpgt_epi8(self.0, arch::_mm_setzero_si128())) }
    }

    /// Whether all are ASCII and none is 0.
    #[inline]
    fn are_plain(self) -> bool {
        self.plain_bits() == 0xffff
    }

    /// Whether the first eight are ASCII and not 0.
    #[inline]
    fn begins_plain(self) -> bool {
        self.plain_bits() as u8 == 0xff
    }

    /// Writes the first eight as units, then the others. Returns `true`.
    ///
    /// # Safety
    /// Eight units can be written to each pointer.
    #[inline]
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
    #[inline]
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
    #[inline]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's. The target has Neon, here and below.
        Self(unsafe { arch::vld1q_u8(from) })
    }

    /// # Safety
    /// 8 bytes can be read from each pointer.
    #[inline]
    unsafe fn load_halves(first: *const u8, second: *const u8) -> Self {
        // SAFETY: the caller's.
        Self(unsafe { arch::vcombine_u8(arch::vld1_u8(first), arch::vld1_u8(second)) })
    }

    /// Four bytes, four others, and zeros.
    #[inline]
    fn of(first: u32, second: u32) -> Self {
        let both = u64::from(first) | u64::from(second) << 32;
        // SAFETY: the target has Neon.
        Self(unsafe { arch::vcombine_u8(arch::vcreate_u8(both), arch::vcreate_u8(0)) })
    }

    /// Plain bytes.
    #[inline]
    fn plain() -> Self {
        // SAFETY: the target has Neon.
        Self(unsafe { arch::vdupq_n_u8(1) })
    }

    /// Bytes that are plain if these and the others are.
    #[inline]
    fn and(self, other: Self) -> Self {
        // SAFETY: the target has Neon.
        unsafe {
            let (this, other) =
                (arch::vreinterpretq_s8_u8(self.0), arch::vreinterpretq_s8_u8(other.0));
            Self(arch::vreinterpretq_u8_s8(arch::vminq_s8(this, other)))
        }
    }

    /// Whether all are ASCII and none is 0.
    #[inline]
    fn are_plain(self) -> bool {
        // SAFETY: the target has Neon.
        unsafe { arch::vminvq_s8(arch::vreinterpretq_s8_u8(self.0)) > 0 }
    }

    /// Whether the first eight are ASCII and not 0.
    #[inline]
    fn begins_plain(self) -> bool {
        // SAFETY: the target has Neon.
        unsafe { arch::vminv_s8(arch::vreinterpret_s8_u8(arch::vget_low_u8(self.0))) > 0 }
    }

    /// Writes the first eight as units, then the others. Returns `true`.
    ///
    /// # Safety
    /// Eight units can be written to each pointer.
    #[inline]
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
    #[inline]
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

    use super::{counted, counted_long};
    use crate::payload::{MAX_ELEMENTS, text::tests::for_each_text};

    /// Compares with the standard library, and looks at the bytes around what was written.
    fn check(text: &str) {
        let (bytes, size) = (text.as_bytes(), 2 + 2 * text.len());
        for room in [size, size - 1] {
            let mut out = vec![0xAA; size + 32];
            let to = &mut out[..16 + room];
            let end = counted(bytes, to, 16).or_else(|| counted_long(bytes, to, 16));
            let is_plain = text.bytes().all(|byte| byte.is_ascii() && byte != 0);
            let is_written = is_plain && room == size && text.len() <= MAX_ELEMENTS;
            assert_eq!(end.map(usize::from), is_written.then_some(16 + size), "{text:?}");
            let around = out[..16].iter().chain(&out[16 + room..]);
            assert!(around.into_iter().all(|byte| *byte == 0xAA), "{text:?}");
            if is_written {
                let units = text.encode_utf16().flat_map(u16::to_le_bytes);
                let count = (text.len() as u16).to_le_bytes();
                let expected: Vec<u8> = count.into_iter().chain(units).collect();
                assert_eq!(out[16..16 + size], expected, "{text:?}");
            }
        }
    }

    #[test]
    fn every_length_and_every_place() {
        for_each_text(check);
    }
}
