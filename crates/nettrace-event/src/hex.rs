//! Bytes as lowercase hexadecimal digits. The loops are written so that the compiler makes few
//! instructions of them: no step depends on the one before, and nothing returns early.

/// A character is not a lowercase hexadecimal digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoDigit;

/// Reads bytes of two digits each. Not inlined, as [`digits`].
///
/// # Errors
///
/// [`NoDigit`] if a character is not a lowercase hexadecimal digit.
#[inline(never)]
pub fn read<const DIGITS: usize, const BYTES: usize>(
    digits: &[u8; DIGITS],
) -> Result<[u8; BYTES], NoDigit> {
    const { assert!(DIGITS == 2 * BYTES) };
    let (mut numbers, mut wrong) = ([0; DIGITS], [0; DIGITS]);
    for ((digit, number), wrong) in digits.iter().zip(&mut numbers).zip(&mut wrong) {
        // Letters have bit 6, and `a` has 1 in its lower half.
        *number = (digit & 15) + (digit >> 6 & 1) * 9;
        // Only digits have a number below 16 that is spelled as they are.
        let letter = if *number > 9 { b'a' - b'0' - 10 } else { 0 };
        *wrong = *number & 0xf0 | (*number + b'0' + letter) ^ digit;
    }
    if wrong.iter().fold(0, |all, wrong| all | wrong) != 0 {
        return Err(NoDigit);
    }
    let mut bytes = [0; BYTES];
    for (byte, pair) in bytes.iter_mut().zip(numbers.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Ok(bytes)
}

/// Reads a number of two digits.
#[cfg(feature = "alloc")]
#[inline]
pub(crate) const fn read_byte([upper, lower]: [u8; 2]) -> Result<u8, NoDigit> {
    match (number(upper), number(lower)) {
        (Ok(upper), Ok(lower)) => Ok(upper << 4 | lower),
        _ => Err(NoDigit),
    }
}

#[cfg(feature = "alloc")]
#[inline]
const fn number(digit: u8) -> Result<u8, NoDigit> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(NoDigit),
    }
}

/// The digits of bytes, two for each.
///
/// The compiler makes this a few instructions for all of them. It is not inlined: bytes that come
/// in registers would be taken apart first.
#[inline(never)]
#[must_use]
pub fn digits<const BYTES: usize, const DIGITS: usize>(bytes: &[u8; BYTES]) -> [u8; DIGITS] {
    const { assert!(DIGITS == 2 * BYTES) };
    let mut all = [0; DIGITS];
    for (digits, byte) in all.chunks_exact_mut(2).zip(bytes) {
        let byte = u16::from(*byte);
        let numbers = (byte >> 4 | byte << 8) & 0x0f0f;
        let letters = (numbers + 0x0606) >> 4 & 0x0101;
        let pair = numbers + 0x3030 + letters * u16::from(b'a' - b'0' - 10);
        digits.copy_from_slice(&pair.to_le_bytes());
    }
    all
}

/// Appends two digits for each byte.
#[cfg(feature = "alloc")]
pub fn push(bytes: &[u8], out: &mut alloc::string::String) {
    out.reserve(2 * bytes.len());
    for part in bytes.chunks(16) {
        let mut padded = [0; 16];
        padded[..part.len()].copy_from_slice(part);
        let digits: [u8; 32] = digits(&padded);
        out.push_str(core::str::from_utf8(&digits[..2 * part.len()]).unwrap_or_default());
    }
}

/// The digits of a number below 256.
#[cfg(feature = "alloc")]
#[inline]
pub(crate) const fn digits_of_byte(number: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [DIGITS[(number >> 4) as usize], DIGITS[(number & 15) as usize]]
}

#[cfg(all(test, feature = "alloc"))]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_spelling_at_every_place() {
        for byte in 0..=u8::MAX {
            let digits_of_it = digits_of_byte(byte);
            assert_eq!(digits_of_it, *alloc::format!("{byte:02x}").as_bytes());
            assert_eq!(read_byte(digits_of_it), Ok(byte));
            for place in 0..8 {
                let number = u64::from(byte) << (8 * place) | 0x0123_4567_89ab_cdef;
                let digits: [u8; 16] = digits(&number.to_be_bytes());
                assert_eq!(digits, *alloc::format!("{number:016x}").as_bytes());
                assert_eq!(read(&digits), Ok(number.to_be_bytes()));
            }
        }
    }

    #[test]
    fn any_number_of_bytes() {
        let bytes: alloc::vec::Vec<u8> = (0..=255).collect();
        let expected: alloc::string::String =
            bytes.iter().map(|byte| alloc::format!("{byte:02x}")).collect();
        for size in (0..=40).chain([256]) {
            let mut text = alloc::string::String::from("x");
            push(&bytes[..size], &mut text);
            assert_eq!(text[1..], expected[..2 * size]);
        }
    }

    #[test]
    fn what_is_no_lowercase_digit_is_refused_at_every_place() {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        for wrong in (0..=u8::MAX).filter(|byte| !is_digit(byte)) {
            for place in 0..16 {
                for others in *b"09af" {
                    let mut digits = [others; 16];
                    digits[place] = wrong;
                    assert_eq!(read::<16, 8>(&digits), Err(NoDigit), "{wrong} at {place}");
                }
            }
            for place in 0..48 {
                let mut digits = [b'a'; 48];
                digits[place] = wrong;
                assert_eq!(read::<48, 24>(&digits), Err(NoDigit), "{wrong} at {place}");
            }
            assert_eq!(read_byte([wrong, b'0']), Err(NoDigit), "{wrong}");
            assert_eq!(read_byte([b'0', wrong]), Err(NoDigit), "{wrong}");
        }
    }
}
