//! Whether a WebAssembly file is all there: a walk over the lengths of its sections, which have to reach its very end.

use std::io::{self, Read, Seek, SeekFrom};

const MAGIC: &[u8; 4] = b"\0asm";

/// How a file looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Its sections reach to its end.
    Whole,
    /// It ends too early: it is empty, or being written.
    Part,
    /// It does not begin like WebAssembly.
    Foreign,
}

/// Whether bytes are a whole WebAssembly file.
pub(crate) fn is_whole(bytes: &[u8]) -> bool {
    let shape = shape(&mut io::Cursor::new(bytes), bytes.len() as u64);
    shape.is_ok_and(|shape| shape == Shape::Whole)
}

/// Walks over a file of `size` bytes. It reads a few bytes for each section and skips the rest.
///
/// # Errors
/// When the file can't be read.
pub(super) fn shape(file: &mut (impl Read + Seek), size: u64) -> io::Result<Shape> {
    file.seek(SeekFrom::Start(0))?;
    let mut head = Vec::with_capacity(8);
    file.by_ref().take(8).read_to_end(&mut head)?;
    let magic = &head[..head.len().min(4)];
    if !MAGIC.starts_with(magic) {
        return Ok(Shape::Foreign);
    }
    // A header alone is a module of nothing at all; nobody means to run one, and a file on its way looks like that.
    if head.len() < 8 || size == 8 {
        return Ok(Shape::Part);
    }
    let mut at = 8;
    while at < size {
        file.seek(SeekFrom::Start(at))?;
        let mut start = Vec::with_capacity(6);
        file.by_ref().take(6).read_to_end(&mut start)?;
        let Some((length, digits)) = start.get(1..).and_then(leb128) else { return Ok(Shape::Part) };
        at = at + 1 + digits + u64::from(length);
    }
    Ok(if at == size { Shape::Whole } else { Shape::Part })
}

/// An unsigned number of up to 32 bits and the bytes that it takes.
fn leb128(bytes: &[u8]) -> Option<(u32, u64)> {
    let mut value: u32 = 0;
    for (place, byte) in (0..5).zip(bytes) {
        value |= u32::from(byte & 0x7f).checked_shl(7 * place)?;
        if byte & 0x80 == 0 {
            return Some((value, u64::from(place) + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn of(bytes: &[u8]) -> Shape {
        shape(&mut Cursor::new(bytes), bytes.len() as u64).unwrap()
    }

    #[test]
    fn only_a_file_whose_sections_reach_its_end_is_whole() {
        let mut component = b"\0asm\x0d\0\x01\0".to_vec();
        component.extend([0, 3, 1, b'a', b'b']);
        component.extend([1, 0x80, 0x01]);
        component.extend([7; 128]);
        assert_eq!(of(&component), Shape::Whole);
        for end in 0..component.len() {
            let expected = if end == 13 { Shape::Whole } else { Shape::Part };
            assert_eq!(of(&component[..end]), expected, "{end}");
        }
        component.push(0);
        assert_eq!(of(&component), Shape::Part);
        assert_eq!(of(b"hello, world"), Shape::Foreign);
        assert_eq!(of(b"\0as?"), Shape::Foreign);
        assert_eq!(of(b"\0asm\x0d\0\x01\0\x01\xff\xff\xff\xff\xff\xff"), Shape::Part);
    }
}
