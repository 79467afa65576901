//! Numbers as lowercase hexadecimal digits, many at a time.

/// A character is not a lowercase hexadecimal digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoDigit;

/// Reads a number of sixteen digits.
#[inline]
pub(crate) const fn read(digits: &[u8; 16]) -> Result<u64, NoDigit> {
    let [a, b, c, d, e, f, g, h, rest @ ..] = *digits;
    let (upper, wrong) = read_eight([a, b, c, d, e, f, g, h]);
    let (lower, wrong_too) = read_eight(rest);
    match wrong | wrong_too {
        0 => Ok((upper as u64) << 32 | lower as u64),
        _ => Err(NoDigit),
    }
}

/// Reads a number of 32 digits.
#[inline]
pub(crate) fn read_long(digits: &[u8; 32]) -> Result<u128, NoDigit> {
    let (upper, lower) = digits.split_at(16);
    let half = |digits: &[u8]| read(digits.first_chunk().ok_or(NoDigit)?);
    Ok(u128::from(half(upper)?) << 64 | u128::from(half(lower)?))
}

/// Reads a number of two digits.
#[inline]
pub(crate) const fn read_byte([upper, lower]: [u8; 2]) -> Result<u8, NoDigit> {
    match (number(upper), number(lower)) {
        (Ok(upper), Ok(lower)) => Ok(upper << 4 | lower),
        _ => Err(NoDigit),
    }
}

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
/// The compiler makes this a few instructions for all of them. It is not inlined: bytes that come in
/// registers would be taken apart first.
#[inline(never)]
pub(crate) fn digits<const BYTES: usize, const DIGITS: usize>(bytes: &[u8; BYTES]) -> [u8; DIGITS] {
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

/// The digits of a number below 256.
#[inline]
pub(crate) const fn digits_of_byte(number: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [DIGITS[(number >> 4) as usize], DIGITS[(number & 15) as usize]]
}

/// A word whose bytes are all this number.
const fn all(number: u8) -> u64 {
    u64::from_le_bytes([number; 8])
}

/// The number that eight digits stand for, and 0 if all of them are lowercase digits.
#[inline]
const fn read_eight(digits: [u8; 8]) -> (u32, u64) {
    let digits = u64::from_le_bytes(digits);
    // Letters have bit 6, and `a` has 1 in its lower half.
    let numbers = (digits & all(15)) + (digits >> 6 & all(1)) * 9;
    // Only digits have a number below 16 that is spelled as they are.
    let wrong = numbers & all(0xf0) | spelled(numbers) ^ digits;
    // Each even byte is the upper half of the odd one after it. The rest moves the odd ones
    // together.
    let bytes = (numbers << 4 | numbers >> 8) & 0x00FF_00FF_00FF_00FF;
    let bytes = (bytes | bytes >> 8) & 0x0000_FFFF_0000_FFFF;
    (((bytes | bytes >> 16) as u32).swap_bytes(), wrong)
}

/// The digits of eight numbers below 16. Numbers from 16 to 24 get some other character.
#[inline]
const fn spelled(numbers: u64) -> u64 {
    let letters = (numbers + all(6)) >> 4 & all(1);
    numbers + all(b'0') + letters * (b'a' - b'0' - 10) as u64
}

#[cfg(test)]
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
                assert_eq!(read(&digits), Ok(number));
            }
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
                    assert_eq!(read(&digits), Err(NoDigit), "{wrong} at {place}");
                }
            }
            assert_eq!(read_byte([wrong, b'0']), Err(NoDigit), "{wrong}");
            assert_eq!(read_byte([b'0', wrong]), Err(NoDigit), "{wrong}");
        }
    }
}
